package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/internal/sandbox/local/cell"
)

// spawner starts processes on one thread that lives as long as the runtime: a process
// with a parent-death signal dies with the thread that made it, and Go's other threads
// may end any time.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for f := range s.work {
			f()
		}
	}()
	return s
}

// do runs start on the thread and returns its error.
func (s *spawner) do(start func() error) error {
	result := make(chan error, 1)
	s.work <- func() { result <- start() }
	return <-result
}

// close ends the thread, and with it what is left of its children.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}

const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// process is a sandbox's process 1.
type process struct {
	cmd  *exec.Cmd
	conn *net.UnixConn // the cell's socket
}

// launch starts a cell that waits for its configuration. Listener may be nil.
func (r *Runtime) launch(listener, stderr *os.File, ids idMap) (*process, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	agent, err := os.Open(r.agentPath())
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer agent.Close()
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", cell.AgentFD))
	cmd.Args = []string{"orchard-agent"}
	cmd.Env = cell.Environ()
	cmd.Dir = "/"
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{listener, theirs, agent}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  namespaces,
		UidMappings: ids.mapping(os.Geteuid()), GidMappings: ids.mapping(os.Getegid()),
		GidMappingsEnableSetgroups: ids.size > 1,
		Credential:                 &syscall.Credential{NoSetGroups: ids.size == 1},
		Setsid:                     true, // no terminal of ours
		Pdeathsig:                  syscall.SIGKILL,
	}
	if err := r.spawn.do(cmd.Start); err != nil {
		ours.Close()
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	return &process{cmd: cmd, conn: ours}, nil
}

// configure sends the cell what to build and returns when the agent runs.
func (p *process) configure(c *cell.Config, ids idMap) error {
	defer p.conn.Close()
	trees, err := openTrees(c, p.cmd.Process.Pid, ids)
	defer func() {
		for _, fd := range trees {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	if err := cell.Send(p.conn, c, trees); err != nil {
		return errors.Join(err, p.report())
	}
	return p.report()
}

// report is what the cell says: nothing once it has become the agent.
func (p *process) report() error {
	text, err := io.ReadAll(p.conn)
	if err != nil && !errors.Is(err, unix.ECONNRESET) {
		return fmt.Errorf("read the cell's report: %w", err)
	}
	if len(text) > 0 {
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// openTrees detaches the trees of c when this process may; else the cell does, whose
// user owns what it needs.
func openTrees(c *cell.Config, pid int, ids idMap) (fds []int, err error) {
	if ids.size == 1 {
		return nil, nil
	}
	userns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	open := func(t *cell.Tree, attributes uint64, userns int) {
		if err != nil {
			return
		}
		var fd int
		if fd, err = cell.OpenTree(t.Source, attributes, userns); err == nil {
			fds = append(fds, fd)
			t.Sent = len(fds)
		}
	}
	open(&c.Box, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, -1)
	for i := range c.Overlays {
		// Files of root on disk are files of the sandbox's root.
		open(&c.Overlays[i].Lower, cell.ReadOnly, int(userns.Fd()))
	}
	for i := range c.Mounts {
		open(&c.Mounts[i].Tree, cell.ReadOnly, -1)
	}
	open(&c.Agent.Tree, cell.ReadOnly, -1)
	return fds, err
}

// socketPair is one end for this process and one for the cell.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "cell"), os.NewFile(uintptr(fds[1]), "cell")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}
