package command

import (
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/internal/objstore"
)

// The files that a stage left beside a version are named where people look at it.
func TestShowNamesFiles(t *testing.T) {
	t.Parallel()
	uri := t.TempDir() + "/tasks"
	if err := makeTasks(t.Context(), []string{uri, "2"}); err != nil {
		t.Fatal(err)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := filesOf(t.Context(), v); err != nil || len(files) != 0 {
		t.Fatalf("%v, %v", files, err)
	}
	index := datasets.FilesIndex("tasks", v.Manifest().Key)
	if _, err := v.Store().Create(t.Context(), index, objstore.Bytes([]byte(`[{"name":"funnel.md","uri":"x","sha256":"","bytes":1500}]`))); err != nil {
		t.Fatal(err)
	}
	files, err := filesOf(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	describe(&out, v, files)
	if want := "/tasks/files/" + v.Manifest().Key + "/\n\tfunnel.md, 1.5 kB\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %q", &out, want)
	}
}
