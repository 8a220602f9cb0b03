package cell

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// filtered runs f on a thread that has the filter and ends afterwards.
func filtered(t *testing.T, f func(call func(number uintptr, args ...uintptr) unix.Errno)) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not be used again
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- err
			return
		}
		if err := filterSyscalls(); err != nil {
			done <- err
			return
		}
		f(func(number uintptr, args ...uintptr) unix.Errno {
			var a [6]uintptr
			copy(a[:], args)
			_, _, e := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
			return e
		})
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestEveryDeniedCall makes each with arguments that the kernel itself would answer
// otherwise.
func TestEveryDeniedCall(t *testing.T) {
	const bad = ^uintptr(0)
	filtered(t, func(call func(uintptr, ...uintptr) unix.Errno) {
		for _, number := range denied {
			if e := call(number, bad, bad, bad, bad, bad, bad); e != unix.EPERM {
				t.Errorf("call %d: %v, want %v", number, e, unix.EPERM)
			}
		}
	})
}

func TestFilterLooksAtArguments(t *testing.T) {
	filtered(t, func(call func(uintptr, ...uintptr) unix.Errno) {
		for _, c := range []struct {
			name   string
			want   unix.Errno
			number uintptr
			args   []uintptr
		}{
			{"getpid", 0, unix.SYS_GETPID, nil},
			{"unshare of a folder", 0, unix.SYS_UNSHARE, []uintptr{unix.CLONE_FS}},
			{"unshare of a user namespace", unix.EPERM, unix.SYS_UNSHARE, []uintptr{unix.CLONE_NEWUSER}},
			{"unshare of a time namespace", unix.EPERM, unix.SYS_UNSHARE, []uintptr{unix.CLONE_NEWTIME}},
			{"clone of a network namespace", unix.EPERM, unix.SYS_CLONE, []uintptr{unix.CLONE_NEWNET | uintptr(unix.SIGCHLD)}},
			{"clone3", unix.ENOSYS, unix.SYS_CLONE3, nil},
			{"a number of another calling convention", unix.ENOSYS, 0x40000000 + unix.SYS_GETPID, nil},
			{"vsock", unix.EAFNOSUPPORT, unix.SYS_SOCKET, []uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}},
			{"a pair of vsocks", unix.EAFNOSUPPORT, unix.SYS_SOCKETPAIR, []uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}},
			{"kernel crypto", unix.EAFNOSUPPORT, unix.SYS_SOCKET, []uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET}},
		} {
			if e := call(c.number, c.args...); e != c.want {
				t.Errorf("%s: %v, want %v", c.name, e, c.want)
			}
		}
		for _, family := range families {
			if family == unix.AF_PACKET {
				continue // takes a capability
			}
			fd, err := unix.Socket(int(family), unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			} else if errors.Is(err, unix.EAFNOSUPPORT) {
				t.Errorf("family %d: %v", family, err)
			}
		}
	})
}
