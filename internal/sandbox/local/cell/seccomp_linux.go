package cell

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are system calls that a sandbox has no use for and that lead out of it, to the
// machine's clock, keys, modules, disks or to much attacked parts of the kernel. They
// answer EPERM. ptrace stays: debuggers and sanitizers work, and reach no further than
// the sandbox's processes.
var denied = append([]uintptr{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
}, deniedHere...)

// families are the socket families that end inside the sandbox. A vsock, above all,
// reaches the hypervisor from any network namespace.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET}

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Where the filter finds what it looks at, in struct seccomp_data. Every architecture
// that this builds for is little-endian.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
)

func answer(e uint32) uint32 { return unix.SECCOMP_RET_ERRNO | e }

// program is the filter. Every test that fails skips the return after it.
func program() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

	p := []unix.SockFilter{
		// Another architecture's numbers mean other calls.
		load(dataArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(answer(uint32(unix.ENOSYS))),
		// So do x32's, from this bit on.
		load(dataNumber), jump(unix.BPF_JGE, 0x40000000, 0, 1), ret(answer(uint32(unix.ENOSYS))),
		// clone3 has its flags where a filter cannot see them; without it libraries use clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(answer(uint32(unix.ENOSYS))),
	}
	for _, number := range denied {
		p = append(p, jump(unix.BPF_JEQ, uint32(number), 0, 1), ret(answer(uint32(unix.EPERM))))
	}
	// clone and unshare of a namespace: CLONE_NEWTIME is an exit signal's bit in clone.
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(dataArg0),
		jump(unix.BPF_JSET, newNamespaces&^unix.CLONE_NEWTIME, 0, 1), ret(answer(uint32(unix.EPERM))), ret(unix.SECCOMP_RET_ALLOW))
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 0, 4), load(dataArg0),
		jump(unix.BPF_JSET, newNamespaces, 0, 1), ret(answer(uint32(unix.EPERM))), ret(unix.SECCOMP_RET_ALLOW))

	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		p = append(p, jump(unix.BPF_JEQ, call, 0, uint8(2+2*len(families))), load(dataArg0))
		for _, family := range families {
			p = append(p, jump(unix.BPF_JEQ, family, 0, 1), ret(unix.SECCOMP_RET_ALLOW))
		}
		p = append(p, ret(answer(uint32(unix.EAFNOSUPPORT))))
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}

// filterSyscalls bounds this thread and all that it executes, for good.
func filterSyscalls() error {
	p := program()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return fmt.Errorf("install %d instructions: %w", len(p), e)
	}
	return nil
}
