package agent

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openTTY makes a terminal of a size: ours is the agent's end, which is polled, program
// the end for a command. User code may have replaced the names in /dev, so nothing is
// opened that could block, and the program's end is asked of ours, never looked up.
func openTTY(rows, cols int) (ours, program *os.File, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		fd, err = unix.Open("/dev/pts/ptmx", flags|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: /dev/ptmx: %s", describe(err))
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open a terminal: unlock: %s", describe(err))
	}
	peer, err := openPeer(fd, flags)
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open a terminal: its other end: %s", describe(err))
	}
	if err := resize(ours, rows, cols); err != nil {
		ours.Close()
		unix.Close(peer)
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(peer), "terminal"), nil
}

// openPeer opens the other end of the terminal fd. Kernels that cannot be asked for it
// get it by its name.
func openPeer(fd, flags int) (int, error) {
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, uintptr(flags))
	if errno == 0 {
		return int(peer), nil
	}
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.FormatUint(uint64(number), 10), flags, 0)
}

// resize tells the kernel, and with it the program, how large the terminal is.
func resize(tty *os.File, rows, cols int) error {
	size := &unix.Winsize{Row: uint16(min(rows, 1<<16-1)), Col: uint16(min(cols, 1<<16-1))}
	raw, err := tty.SyscallConn()
	if err != nil {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	failed := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	return nil
}
