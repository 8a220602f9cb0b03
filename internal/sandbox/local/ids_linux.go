package local

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
)

// Outside uids for sandboxes: a range of 65536 for each, from 2^30 on, where neither
// accounts nor the ranges of /etc/subuid usually are.
const (
	rangeSize  = 1 << 16
	rangeFirst = 1 << 30
	rangeCount = 8192
)

// idMap says who a sandbox's users are outside: its ids from 0 on are base and those
// after it. With size 1 its root is this process's own user.
type idMap struct{ base, size int }

func (m idMap) mapping(own int) []syscall.SysProcIDMap {
	if m.size == 1 {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: own, Size: 1}}
	}
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: m.base, Size: m.size}}
}

// owner is the uid outside that box folders shall have; -1 leaves this process's own.
func (m idMap) owner() int {
	if m.size == 1 {
		return -1
	}
	return m.base
}

// idRanges hands out ranges. Two sandboxes of a service never share one; sandboxes of two
// services may, by chance, which namespaces still keep apart.
type idRanges struct {
	ranges bool // false: this process may map no user but its own

	mu    sync.Mutex
	next  int
	inUse map[int]bool
}

func newIDRanges() *idRanges {
	return &idRanges{
		ranges: os.Geteuid() == 0 && mapped("/proc/self/uid_map") && mapped("/proc/self/gid_map"),
		next:   rand.IntN(rangeCount), inUse: map[int]bool{},
	}
}

// mapped says whether this process's own namespace knows all the ranges.
func mapped(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, size int
		if n, _ := fmt.Sscan(lines.Text(), &inside, &outside, &size); n == 3 && inside <= rangeFirst && inside+size >= rangeFirst+rangeCount*rangeSize {
			return true
		}
	}
	return false
}

// take is a range that no other sandbox has; give it back when the sandbox has ended.
func (r *idRanges) take() (idMap, error) {
	if !r.ranges {
		return idMap{size: 1}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.inUse) == rangeCount {
		return idMap{}, fmt.Errorf("%d sandboxes run already", rangeCount)
	}
	for r.inUse[r.next] {
		r.next = (r.next + 1) % rangeCount
	}
	slot := r.next
	r.next = (r.next + 1) % rangeCount
	r.inUse[slot] = true
	return idMap{base: rangeFirst + slot*rangeSize, size: rangeSize}, nil
}

func (r *idRanges) give(m idMap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inUse, (m.base-rangeFirst)/rangeSize)
}
