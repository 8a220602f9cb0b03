package dir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// TestFullAndReadOnlyDisk runs in a child with its own mounts: a tmpfs of 256 KiB, and
// the same read-only.
func TestFullAndReadOnlyDisk(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildFullDisk$", "-test.v")
	child.Env = append(os.Environ(), "DIR_TEST_MOUNT="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this kernel gives no user namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestChildFullDisk") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestChildFullDisk(t *testing.T) {
	mount := os.Getenv("DIR_TEST_MOUNT")
	if mount == "" {
		t.Skip("runs inside TestFullAndReadOnlyDisk")
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	s := open(t, mount)
	old, err := s.Create(t.Context(), "refs/x", objstore.Bytes("old"))
	if err != nil {
		t.Fatal(err)
	}
	big := objstore.Bytes(make([]byte, 1<<20))
	check := func(err error, want error, code int) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), mount) || exit.Code(err) != code {
			t.Errorf("error %v (exit %d), want one that is %v (exit %d) and names the path", err, exit.Code(err), want, code)
		}
	}
	_, err = s.Create(t.Context(), "data/big", big)
	check(err, objstore.ErrNoSpace, exit.Gone)
	check(err, syscall.ENOSPC, exit.Gone)
	_, err = s.Swap(t.Context(), "refs/x", big, old.ETag)
	check(err, objstore.ErrNoSpace, exit.Gone)
	if left, _ := filepath.Glob(filepath.Join(mount, "*", tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := s.Create(t.Context(), "data/small", objstore.Bytes("x")); err != nil {
		t.Errorf("small object after the failure: %v", err)
	}
	if b, _, err := objstore.ReadAll(t.Context(), s, "refs/x", 10); string(b) != "old" {
		t.Errorf("refs/x is %q, %v", b, err)
	}

	if err := syscall.Mount("", mount, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), "data/more", objstore.Bytes("x"))
	check(err, syscall.EROFS, exit.Config)
	check(s.Delete(t.Context(), "data/small"), syscall.EROFS, exit.Config)
}
