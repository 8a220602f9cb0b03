package agent

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Nothing is stopped, which is how the end begins, while a child is on its way to its
// program; and no other sets out. A lease on the program's file holds the child up.
func TestNothingIsOnItsWayAtTheEnd(t *testing.T) {
	content, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/program"
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("this file system has no leases: %v", err)
	}
	p := &processes{waiting: map[int]chan<- syscall.WaitStatus{}}
	started := make(chan error, 1)
	go func() {
		_, err := p.start(path, []string{"program"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		started <- err
	}()
	for p.mu.TryLock() { // until it is on its way
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if p.close(brief); brief.Err() == nil {
		t.Error("it is the end, and a child is on its way")
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	p.close(t.Context())
	if _, err := p.start(path, []string{"program"}, &syscall.ProcAttr{}); !errors.Is(err, errEnding) {
		t.Errorf("after the end: %v", err)
	}
}
