package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKernel(t *testing.T) {
	for release, want := range map[string]Status{
		"4.19.0": Fail, "5.10.0-28-amd64": Fail, "5.12.0": OK, "6.1.0-40-cloud": OK, "10.0": OK, "unknown": OK,
	} {
		if f := kernel(release); f.Status != want || (want == Fail) != strings.Contains(f.Means, "5.12") {
			t.Errorf("%s: %+v", release, f)
		}
	}
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := disk(filepath.Join(file, "below")); f.Status != Fail || !strings.Contains(f.Found, file) {
		t.Errorf("%+v", f)
	}
}
