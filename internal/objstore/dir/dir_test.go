package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
)

func open(t *testing.T, root string) *Store {
	t.Helper()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	objtest.Run(t, func(t *testing.T) objstore.Store { return open(t, filepath.Join(t.TempDir(), "made", "later")) })
}

// Two values over one folder stand for two processes.
func TestTwoStoresShareAFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a, b := open(t, root), open(t, root)
	info, err := a.Create(t.Context(), "k", objstore.Bytes("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), "k", objstore.Bytes("2")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("create: %v", err)
	}
	if _, err := b.Swap(t.Context(), "k", objstore.Bytes("2"), info.ETag); err != nil {
		t.Errorf("swap: %v", err)
	}
	if _, err := a.Swap(t.Context(), "k", objstore.Bytes("3"), info.ETag); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("stale swap: %v", err)
	}
}

func TestReadingMakesNoFolder(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "typo")
	s := open(t, root)
	s.Stat(t.Context(), "k")
	s.Delete(t.Context(), "k")
	for range s.List(t.Context(), "") {
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made %s: %v", root, err)
	}
}

func TestOpenRefusesAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Open of a file: %v", err)
	}
}

// What cannot be written is no object that is missing.
func TestPlaceThatCannotBe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, root).Create(t.Context(), "f/sub/k", objstore.Bytes("x"))
	if !errors.Is(err, syscall.ENOTDIR) || errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "cannot make "+filepath.Join(root, "f")) {
		t.Errorf("create below a file: %v", err)
	}
}

func TestReservedNames(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, key := range []string{".lock", "a/.tmp-1", ".tmp-x/y"} {
		if _, err := s.Create(t.Context(), key, objstore.Bytes("x")); err == nil {
			t.Errorf("create %s: no error", key)
		}
	}
}

// The ETag changes when somebody else changes the file as well.
func TestETagSeesForeignChanges(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	info, err := s.Create(t.Context(), "k", objstore.Bytes("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, "k"), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), "k", objstore.Bytes("x"), info.ETag); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("swap: %v", err)
	}
}

// TestKilledWriter kills a process in the middle of a write, looks at what it left, and
// lets the next writer clear it away, but not the file of one that lives.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildWriter$")
	child.Env = append(os.Environ(), "DIR_TEST_ROOT="+root)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is in the middle
		t.Fatal(err)
	}
	temps := func() int {
		names, err := filepath.Glob(filepath.Join(root, "a", tempPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := temps(); n != 1 {
		t.Fatalf("%d temporary files while it writes", n)
	}
	if _, err := open(t, root).Create(t.Context(), "a/other", objstore.Bytes("x")); err != nil {
		t.Fatal(err)
	}
	if n := temps(); n != 1 {
		t.Errorf("%d temporary files: the sweep took one of a living writer", n)
	}
	child.Process.Signal(syscall.SIGKILL)
	child.Wait()

	s := open(t, root)
	if _, err := s.Stat(t.Context(), "a/k"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("the half-written object: %v", err)
	}
	for info := range s.List(t.Context(), "") {
		if info.Key != "a/other" {
			t.Errorf("listed %q", info.Key)
		}
	}
	if _, err := s.Create(t.Context(), "a/k", objstore.Bytes("whole")); err != nil {
		t.Errorf("create after the kill: %v", err)
	}
	if n := temps(); n != 0 {
		t.Errorf("%d temporary files are left", n)
	}
}

func TestChildWriter(t *testing.T) {
	root := os.Getenv("DIR_TEST_ROOT")
	if root == "" {
		t.Skip("runs inside TestKilledWriter")
	}
	r, w := io.Pipe()
	go func() {
		w.Write([]byte("x"))
		fmt.Print("x") // and never ends
	}()
	open(t, root).Create(t.Context(), "a/k", pipeBody{r})
}

type pipeBody struct{ r io.ReadCloser }

func (pipeBody) Size() int64                    { return 2 }
func (b pipeBody) Open() (io.ReadCloser, error) { return b.r, nil }
