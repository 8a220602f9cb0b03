package imports

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orchard/datasets/record"
)

// TestForeignWriters: the same rows out of DuckDB, polars and hyparquet-writer, each in
// its own types, codecs and row groups, are the same tasks. testdata/writers/make.mjs
// made the files.
func TestForeignWriters(t *testing.T) {
	t.Parallel()
	const dir = "testdata/writers"
	tasks := func(name string) (out []record.Task) {
		// Without FAIL_TO_FAIL the rows are those of SWE-rebench by license_name.
		for _, p := range parseFile(t, filepath.Join(dir, name), "swe-rebench") {
			out = append(out, p.Task)
		}
		return out
	}
	want := tasks("rows.jsonl")
	if len(want) != 5 || want[4].Image != "docker.io/x/y:4" || want[1].Image != "docker.io/swerebench/sweb.eval.x86_64.acme_1776_calc-1:latest" || len(want[4].FailToPass) != 5 || want[0].CreatedAt == nil {
		t.Fatalf("%+v", want)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".parquet") && !strings.HasSuffix(f.Name(), ".arrow") {
			continue
		}
		read++
		got := tasks(f.Name())
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(record.Task{}, "Raw")); d != "" {
			t.Errorf("%s: -want +got:\n%s", f.Name(), d)
		}
		for i := range got {
			if !strings.Contains(strings.ReplaceAll(got[i].Raw, `\"`, `"`), `"num_modified_files":1`) {
				t.Errorf("%s: raw %s", f.Name(), got[i].Raw)
			}
		}
	}
	if read < 7 {
		t.Errorf("only %d files", read)
	}
}
