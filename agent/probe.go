package agent

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// answer is what came of trying to connect.
type answer int

const (
	untried  answer = iota // this process could not find out
	silent                 // nothing came in time
	refused                // somebody said no
	accepted               // somebody listens
)

// probeTries is how many connections are tried at once: one packet that is lost must not
// look like a closed network.
const probeTries = 3

// probe tries to connect for as long as wait, and is the most that any try found.
//
// The kernel is asked in the end what it has got, not a timer of this process: one that may
// run for a few milliseconds of each hundred finds its timers fired before it has looked at
// the answer that has long been there, and would call that silence.
func probe(ctx context.Context, to netip.AddrPort, wait time.Duration) answer {
	most, tries := untried, []unix.PollFd{}
	for range probeTries {
		fd, err := begin(to)
		if fd >= 0 {
			defer unix.Close(fd)
		}
		if errors.Is(err, unix.EINPROGRESS) {
			tries = append(tries, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
		} else {
			most = max(most, meaning(err))
		}
	}
	for end := time.Now().Add(wait); len(tries) > 0; {
		left := time.Until(end) // the last look is taken with none left
		_, err := unix.Poll(tries, max(0, int((left+time.Millisecond-1)/time.Millisecond)))
		switch {
		case errors.Is(err, unix.EINTR) && ctx.Err() == nil:
			continue
		case err != nil:
			return untried
		}
		waiting := tries[:0]
		for _, t := range tries {
			if t.Revents == 0 {
				waiting = append(waiting, t)
				continue
			}
			code, err := unix.GetsockoptInt(int(t.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && code != 0 {
				err = unix.Errno(code)
			}
			most = max(most, meaning(err))
		}
		tries = waiting
		if left <= 0 || ctx.Err() != nil {
			break
		}
	}
	if len(tries) > 0 {
		most = max(most, silent)
	}
	return most
}

// begin is a connection that is under way (EINPROGRESS), or how it ended at once.
func begin(to netip.AddrPort) (fd int, err error) {
	var target unix.Sockaddr = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family, target = unix.AF_INET, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, target)
}

// meaning is what the end of a connection says of the network. Only what somebody answered,
// or the lack of any way, is a refusal: that this process has no more files is not.
func meaning(err error) answer {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, unix.ETIMEDOUT):
		return silent
	}
	for _, no := range []unix.Errno{
		unix.ECONNREFUSED, unix.ECONNRESET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN,
		unix.EACCES, unix.EPERM, unix.ENOPROTOOPT, unix.EPROTO, unix.EAFNOSUPPORT,
	} {
		if errors.Is(err, no) {
			return refused
		}
	}
	return untried
}
