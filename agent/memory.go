package agent

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryFiles is where a container sees how often the kernel killed one of its processes
// for want of memory: cgroup v2, then v1.
var memoryFiles = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// memoryWatch ends a sandbox that ran out of memory as a whole: who knows what its processes
// were in the middle of when the kernel shot one. Where the kernel kills them all, this one
// included, the kubelet says so; where it kills one, nobody else does. Safe for concurrent use.
type memoryWatch struct {
	file string // "" where nothing is to be seen
	base int64
	once sync.Once
	out  chan struct{} // closed when it ran out
}

// watchMemory counts from now.
func watchMemory(files []string) *memoryWatch {
	w := &memoryWatch{out: make(chan struct{})}
	for _, file := range files {
		if n, ok := oomKills(file); ok {
			w.file, w.base = file, n
			break
		}
	}
	return w
}

// oomKills reads the line "oom_kill N".
func oomKills(file string) (int64, bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// ranOut looks now, and lets the sandbox end if it has.
func (w *memoryWatch) ranOut() bool {
	if w.file == "" {
		return false
	}
	n, ok := oomKills(w.file)
	if !ok || n <= w.base {
		return false
	}
	w.once.Do(func() { close(w.out) })
	return true
}

// follow looks again and again until ctx is done.
func (w *memoryWatch) follow(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for w.file != "" && !w.ranOut() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
