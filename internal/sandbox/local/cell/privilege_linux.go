package cell

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that package managers, test suites and daemons use and that
// mean nothing outside the sandbox's own user namespace.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT, unix.CAP_SETFCAP,
}

// limit sets what a process may take where no cgroup bounds it.
func (c *Config) limit() error {
	limits := []struct {
		what  int
		value uint64
	}{{unix.RLIMIT_CORE, 0}}
	if c.DataLimit > 0 {
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_DATA, c.DataLimit})
	}
	if c.ProcessLimit > 0 {
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_NPROC, c.ProcessLimit})
	}
	for _, l := range limits {
		if err := setLimit(l.what, l.value); err != nil {
			return fmt.Errorf("set resource limit %d to %d: %w", l.what, l.value, err)
		}
	}
	unix.Umask(0o022)
	return nil
}

// setLimit lowers a limit; one that is lower already stays.
func setLimit(what int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, what, nil, &now); err != nil {
		return err
	}
	value = min(value, now.Max)
	return unix.Prlimit(0, what, &unix.Rlimit{Cur: value, Max: value}, nil)
}

// giveUp leaves this thread with kept and nothing more, for good.
func (c *Config) giveUp() error {
	keep := map[uintptr]bool{}
	var mask [2]uint32
	for _, capability := range kept {
		keep[capability] = true
		mask[capability/32] |= 1 << (capability % 32)
	}
	for capability := uintptr(0); capability < 64; capability++ {
		if keep[capability] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // beyond the last that this kernel knows
			break
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if err := c.setUser(); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if c.UID == 0 {
		for i := range data {
			data[i] = unix.CapUserData{Effective: mask[i], Permitted: mask[i]}
		}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return nil
}

// setUser makes this thread an image's user. Go's own calls would change every thread.
func (c *Config) setUser() error {
	if c.UID == 0 && c.GID == 0 {
		return nil
	}
	gid, uid := uintptr(c.GID), uintptr(c.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return fmt.Errorf("drop groups: %w", e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return fmt.Errorf("become group %d: %w", gid, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return fmt.Errorf("become user %d: %w", uid, e)
	}
	return nil
}
