package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/internal/exit"
	"orchard/internal/sandbox/local/cell"
)

// Namespace is one that every sandbox has.
type Namespace struct {
	Name string // "user", "mount", …
	File string // in /proc/self/ns
	flag uintptr
}

// Namespaces are those that a sandbox needs. All others need the user namespace first.
var Namespaces = []Namespace{
	{"user", "user", syscall.CLONE_NEWUSER}, {"mount", "mnt", syscall.CLONE_NEWNS}, {"PID", "pid", syscall.CLONE_NEWPID},
	{"network", "net", syscall.CLONE_NEWNET}, {"IPC", "ipc", syscall.CLONE_NEWIPC}, {"UTS", "uts", syscall.CLONE_NEWUTS},
	{"cgroup", "cgroup", syscall.CLONE_NEWCGROUP},
}

// Try makes the namespace, with a user namespace around it, and ends it again. The error
// says what the kernel answered.
func (n Namespace) Try() error {
	if _, err := os.Stat(filepath.Join("/proc/self/ns", n.File)); err != nil {
		return fmt.Errorf("this kernel has no %s namespaces", n.Name)
	}
	return try(n.flag)
}

// try starts a process in new namespaces. It is never executed: a program that is not
// there fails only after the namespaces are made.
func try(flags uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := idMap{size: 1}
	_, err := os.StartProcess("/proc/self/no-such-program", []string{"-"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | flags,
		UidMappings: own.mapping(os.Geteuid()), GidMappings: own.mapping(os.Getegid()),
	}})
	if pathErr, ok := err.(*os.PathError); ok && pathErr.Err == syscall.ENOENT {
		return nil
	}
	return err
}

// haveNamespaces is nil when all can be made, or names those that cannot.
func haveNamespaces() error {
	if try(namespaces) == nil {
		return nil
	}
	var missing []string
	for _, n := range Namespaces {
		if err := n.Try(); err != nil {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) == 0 {
		return exit.Configf("this machine makes every kind of namespace but not all at once: orchard doctor explains")
	}
	return exit.Configf("this machine makes no %s namespaces, which local sandboxes need: orchard doctor explains", strings.Join(missing, ", "))
}

// probe builds an empty sandbox as far as executing its agent, so that a machine which
// cannot is known at once and the message has the step that fails.
func (r *Runtime) probe() error {
	lower := filepath.Join(r.service.dir, "empty")
	if err := os.MkdirAll(lower, 0o755); err != nil {
		return err
	}
	b := &box{r: r, dir: r.service.boxDir("probe")}
	b.state.Spec.ID, b.state.UID = "probe", "probe"
	root := &rootfs{lower: lower, workdir: workdir, env: map[string]string{}}
	ids, err := r.ids.take()
	if err != nil {
		return err
	}
	defer r.ids.give(ids)
	if err := b.makeDirs(root, ids); err != nil {
		return err
	}
	defer removeTree(b.dir)
	p, err := r.launch(nil, nil, ids)
	if err != nil {
		return err
	}
	c := r.config(b, root)
	c.Probe = true
	err = p.configure(c, ids)
	p.cmd.Wait() // its report says more than its exit code
	switch {
	case err == nil:
		return fmt.Errorf("the agent %s builds no sandboxes: is it another program, or of another version?", r.opts.AgentPath)
	case err.Error() == cell.Probed:
		return nil
	}
	return err
}

// KernelRelease is what uname says.
func KernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
