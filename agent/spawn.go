package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// processes starts commands and is the only one in this process that waits for
// children: its own ones and the orphans that the kernel hands to a PID 1 or a
// subreaper. One lock covers a fork and its entry in the table, and every wait, so a
// status can neither be missed nor go to the wrong job.
type processes struct {
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
	mark    uint64
	oom     *oomGuard
	closed  bool
}

// errEnding is that no command is started any more.
var errEnding = errors.New("the sandbox ended before it started")

// process is a started command.
type process struct {
	pid  int
	mark uint64
	exit <-chan syscall.WaitStatus // gets one value
}

func newProcesses() *processes {
	return &processes{
		waiting: map[int]chan<- syscall.WaitStatus{},
		// Far above any real-time limit that could bite, and not those of an agent
		// that runs inside this one's sandbox.
		mark: 1<<62 | rand.Uint64()>>2,
		oom:  newOOMGuard(),
	}
}

// start runs argv from the file path. Its errors are the kernel's.
//
// The child and all it will ever fork inherit a soft RLIMIT_RTTIME of a number that
// only this job has: it limits nothing, survives exec, setsid, a cleared environment
// and the loss of the parent, and costs one system call (see family.go).
func (p *processes) start(path string, argv []string, attr *syscall.ProcAttr) (process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return process{}, errEnding
	}
	p.mark++
	limit := unix.Rlimit{Cur: p.mark, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &limit, nil); err != nil {
		limit.Cur = 0 // then sessions and parents have to do
	}
	p.oom.childrenNext()
	pid, err := syscall.ForkExec(path, argv, attr)
	p.oom.selfAgain()
	if err != nil {
		return process{}, err
	}
	exit := make(chan syscall.WaitStatus, 1)
	p.waiting[pid] = exit
	return process{pid: pid, mark: limit.Cur, exit: exit}, nil
}

// close lets no command start any more. It returns when none is on its way, or ctx is done.
//
// A child that is not its own program yet must not be stopped: the thread that forks waits
// for it in the kernel, where the runtime cannot hold it up, and so the next collection of
// garbage stops this whole process for good.
func (p *processes) close(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// signal sends to the process group that p leads; false when p has ended.
func (p *processes) signal(to process, signal syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.waiting[to.pid]; !there { // not reaped: the number is still its own
		return false
	}
	_ = syscall.Kill(-to.pid, signal)
	return true
}

// reap collects children until ctx is done.
func (p *processes) reap(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	for {
		for p.reapOne() {
		}
		select {
		case <-died:
		case <-ctx.Done():
			return
		}
	}
}

// reapOne reports whether there may be more.
func (p *processes) reapOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if exit, ours := p.waiting[pid]; ours {
		delete(p.waiting, pid)
		exit <- status
	}
	return true
}

// oomGuard keeps the out-of-memory killer away from the agent and none of its children.
// nil when the kernel does not permit it.
type oomGuard struct{ file *os.File }

// protected is below what Kubernetes gives to any container, but not "never".
const protected = "-998"

func newOOMGuard() *oomGuard {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	if _, err := f.WriteAt([]byte(protected), 0); err != nil {
		f.Close()
		return nil
	}
	return &oomGuard{f}
}

// childrenNext is called right before a fork: a child must never start protected.
func (g *oomGuard) childrenNext() {
	if g != nil {
		_, _ = g.file.WriteAt([]byte("0"), 0)
	}
}

// selfAgain is called right after it.
func (g *oomGuard) selfAgain() {
	if g != nil {
		_, _ = g.file.WriteAt([]byte(protected), 0)
	}
}

// becomeReaper makes orphaned descendants children of this process.
func becomeReaper() error {
	if os.Getpid() == 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}
