package whole_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/whole"
)

// only checks that path holds want with mode perm, and that nothing lies beside it.
func only(t *testing.T, path, want string, perm os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != perm {
		t.Errorf("%v, %v; want mode %v", info, err, perm)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside it: %v, %v", left, err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	for _, text := range []string{"first", "second"} {
		if err := whole.WriteBytes(path, 0o640, []byte(text)); err != nil {
			t.Fatal(err)
		}
		only(t, path, text, 0o640)
	}
	broken := errors.New("broken")
	err := whole.Write(path, 0o600, func(f *os.File) error {
		f.WriteString("half")
		if b, err := os.ReadFile(path); err != nil || string(b) != "second" {
			t.Errorf("seen while it is written: %q, %v", b, err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	only(t, path, "second", 0o640)
	if err := whole.WriteBytes(filepath.Join(path, "below"), 0o644, nil); err == nil {
		t.Error("a file below a file")
	}
}
