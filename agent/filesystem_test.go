package agent_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"orchard/agent/wire"
)

func TestErrorsOfTheFileSystem(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	t.Parallel()
	b := start(t, nil)
	small, locked := t.TempDir(), t.TempDir()
	for _, m := range []struct {
		dir, data string
		flags     uintptr
	}{{small, "size=16k", 0}, {locked, "", syscall.MS_RDONLY}} {
		if err := syscall.Mount("test", m.dir, "tmpfs", m.flags, m.data); err != nil {
			t.Skipf("mount a tmpfs: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(m.dir, syscall.MNT_DETACH) })
	}
	for _, c := range []struct {
		dir    string
		status int
		code   string
		says   string
	}{{small, 507, wire.CodeNoSpace, "ENOSPC"}, {locked, 403, wire.CodeDenied, "EROFS"}} {
		resp, text := b.do("PUT", "/v1/files?path="+c.dir+"/f", strings.NewReader(strings.Repeat("x", 1<<20)))
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.code) || !strings.Contains(string(text), c.says) || !strings.Contains(string(text), c.dir) {
			t.Errorf("got %d %s, want %d %s", resp.StatusCode, text, c.status, c.code)
		}
		if left, _ := os.ReadDir(c.dir); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	// A file that is a mount of its own, as /etc/hosts in a container.
	for _, name := range []string{"source", "hosts"} {
		b.put(name, "old "+name)
	}
	if err := syscall.Mount(b.dir+"/source", b.dir+"/hosts", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(b.dir+"/hosts", syscall.MNT_DETACH) })
	b.put("hosts", "new")
	if got := b.get("source"); got != "new" {
		t.Errorf("a mounted file: got %q", got)
	}
}
