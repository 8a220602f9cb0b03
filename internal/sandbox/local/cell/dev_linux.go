package cell

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// deviceNames are the devices that programs expect and that hold no state of the machine.
var deviceNames = []string{"null", "zero", "full", "random", "urandom", "tty"}

// openDevices are trees of deviceNames, in order: a user namespace can make no device.
func openDevices() ([]int, error) {
	var fds []int
	for _, name := range deviceNames {
		fd, err := OpenTree("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, -1)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func populateDev(devices []int, shm int64) error {
	if err := mountNew("/dev", "tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode", "0755", "size", "1m"); err != nil {
		return err
	}
	for i, fd := range devices {
		if err := attachFile(fd, "/dev/"+deviceNames[i]); err != nil {
			return err
		}
	}
	if err := mountNew("/dev/shm", "tmpfs", nosuid, "mode", "1777", "size", strconv.FormatInt(shm, 10)); err != nil {
		return err
	}
	if err := mountNew("/dev/pts", "devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "newinstance", "", "ptmxmode", "0666", "mode", "0620"); err != nil {
		return err
	}
	for _, link := range [][2]string{
		{"pts/ptmx", "/dev/ptmx"}, {"/proc/self/fd", "/dev/fd"},
		{"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
	} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			return err
		}
	}
	return nil
}

// What /proc shows of the machine itself. hidden reads as empty; frozen reads as it is.
var (
	hidden = []string{"kcore", "keys", "key-users", "kmsg", "latency_stats", "sched_debug", "sysrq-trigger", "timer_list", "timer_stats"}
	empty  = []string{"acpi", "asound", "scsi"}
	frozen = []string{"bus", "fs", "irq", "sys"}
)

func mountProc(proc int) error {
	if err := attachDir(proc, "/proc"); err != nil {
		return err
	}
	// No user namespace below this one: it would hand out every capability again. The
	// system call filter says the same, this holds for what the filter cannot see.
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return fmt.Errorf("forbid user namespaces: %w", err)
	}
	for _, name := range hidden {
		if err := cover("/proc/"+name, func() (int, error) { return OpenTree("/dev/null", ReadOnly&^unix.MOUNT_ATTR_NODEV, -1) }); err != nil {
			return err
		}
	}
	for _, name := range empty {
		if err := cover("/proc/"+name, func() (int, error) { return newMount("tmpfs", ReadOnly, "nr_inodes", "1") }); err != nil {
			return err
		}
	}
	for _, name := range frozen {
		if err := cover("/proc/"+name, func() (int, error) { return OpenTree("/proc/"+name, ReadOnly, -1) }); err != nil {
			return err
		}
	}
	return nil
}

// cover mounts what open makes over path, if this kernel has path.
func cover(path string, open func() (int, error)) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	fd, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return moveMount(fd, path)
}
