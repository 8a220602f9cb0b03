package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/exit"
)

func TestOutputFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made")
	if err := saveOutputs(dir, Result{URI: "file:///d@1", RowsOut: 7, Shards: []string{"1/2", "2/2"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"dataset": "file:///d@1", "rows": "7", "shards.json": `["1/2","2/2"]`} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	file := filepath.Join(dir, "rows")
	if err := saveOutputs(file, Result{}); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--output-dir") {
		t.Errorf("a file in the place of the folder: %v", err)
	}
	if err := saveOutputs("", Result{}); err != nil {
		t.Error(err)
	}
}
