package agent

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stat is what /proc says about a process.
type stat struct {
	pid, parent, group, session int
	dead                        bool
}

// kill ends every process that descends from the job's, wherever it went, and returns
// when none is left or ctx is done. The leader's pid is 0 once it may be reused.
func (p *process) kill(ctx context.Context, leader int) {
	if leader != 0 {
		_ = syscall.Kill(-leader, syscall.SIGSTOP) // most are there: gives the search below its processors back
	}
	killAll(ctx, func(s stat) bool {
		return leader != 0 && (s.session == leader || s.group == leader) || p.mark != 0 && markOf(s.pid) == p.mark
	})
}

// killDescendants ends everything below this process: all that a sandbox runs. Nothing is
// started any more.
func killDescendants(ctx context.Context) {
	self := os.Getpid()
	killAll(ctx, func(s stat) bool { return s.parent == self })
}

// killAll ends the processes of which root is true and all their descendants.
//
// They are stopped before they are killed: a process that forks faster than /proc can
// be read would otherwise always have a child that was not seen. A stopped one makes no
// more, and a signal to its group reaches the whole group between two forks, so every
// pass leaves fewer; then all die.
func killAll(ctx context.Context, root func(stat) bool) {
	stopped := map[int]bool{}
	for fresh := true; fresh && ctx.Err() == nil; {
		fresh = false
		members := family(root)
		for _, s := range members {
			fresh = fresh || !stopped[s.pid]
			stopped[s.pid] = true
		}
		signalAll(members, syscall.SIGSTOP)
	}
	for {
		members := family(root)
		if len(members) == 0 {
			return
		}
		signalAll(members, syscall.SIGKILL)
		select { // dying takes the kernel a moment
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// signalAll sends to the groups of members. A group is within one session, and a
// session is one job's, so nobody else is in them; but for one that the agent is in,
// or that was made outside of this PID namespace.
func signalAll(members []stat, signal syscall.Signal) {
	own := syscall.Getpgrp()
	sent := map[int]bool{}
	for _, s := range members {
		to := -s.group
		if s.group <= 1 || s.group == own {
			to = s.pid
		}
		if !sent[to] {
			sent[to] = true
			_ = syscall.Kill(to, signal) // it may be gone
		}
	}
}

// family lists the living descendants of this process of which root is true, and
// theirs. All that the sandbox runs descends from this process, a reaper of orphans.
func family(root func(stat) bool) []stat {
	self := os.Getpid()
	children := map[int][]stat{}
	for _, pid := range pids() {
		if s, ok := readStat(pid); ok {
			children[s.parent] = append(children[s.parent], s)
		}
	}
	var found []stat
	var walk func(parent int, member bool)
	walk = func(parent int, member bool) {
		below := children[parent]
		delete(children, parent) // a snapshot taken while pids are reused may hold a loop
		for _, s := range below {
			member := member || root(s)
			if member && !s.dead {
				found = append(found, s)
			}
			walk(s.pid, member)
		}
	}
	walk(self, false)
	return found
}

func pids() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var found []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(pid, text)
}

// parseStat reads "PID (NAME) STATE PPID PGRP SESSION ...", where NAME may hold
// anything, parentheses and spaces included.
func parseStat(pid int, text []byte) (stat, bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 4 || len(fields[0]) != 1 {
		return stat{}, false
	}
	s := stat{pid: pid, dead: bytes.ContainsAny(fields[0], "ZXx")}
	for i, into := range []*int{&s.parent, &s.group, &s.session} {
		n, err := strconv.Atoi(string(fields[i+1]))
		if err != nil {
			return stat{}, false
		}
		*into = n
	}
	return s, true
}

// markOf is the number that start gave to pid's job, or another limit, or 0.
func markOf(pid int) uint64 {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit); err == nil {
		return limit.Cur
	}
	// A process of another user, and this one may not do all that root may.
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0
	}
	return parseMark(text)
}

// parseMark finds the soft limit in "Max realtime timeout  SOFT  HARD  us".
func parseMark(text []byte) uint64 {
	_, rest, _ := bytes.Cut(text, []byte("Max realtime timeout"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	mark, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil { // "unlimited"
		return 0
	}
	return mark
}
