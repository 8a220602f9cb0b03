package scale_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// usage is what a process has taken so far.
type usage struct {
	cpu  time.Duration
	rss  int64 // bytes, now
	peak int64
}

// usageOf reads /proc.
func usageOf(pid int) (u usage, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// After the name, which may hold anything, begins field 3; 14 and 15 are ticks of 10 ms.
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 13 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	for _, ticks := range f[11:13] {
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	if raw, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err != nil {
		return u, err
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return u, err
		}
		if u.rss = kb << 10; name == "VmHWM" {
			u.peak = u.rss
		}
	}
	_, rss, _ := strings.Cut(string(raw), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rss)[0], 10, 64)
	u.rss = kb << 10
	return u, err
}

// series is the memory of a process over time.
type series struct {
	mu  sync.Mutex
	rss []int64
}

// sample reads a process's memory every second until ctx is done.
func sample(ctx context.Context, pid int) *series {
	s := &series{}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if u, err := usageOf(pid); err == nil {
					s.mu.Lock()
					s.rss = append(s.rss, u.rss)
					s.mu.Unlock()
				}
			}
		}
	}()
	return s
}

// thirds are the means of the first and the last third, and the largest of all.
func (s *series) thirds() (first, last, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.rss) / 3
	if n == 0 {
		return 0, 0, 0
	}
	for i, v := range s.rss {
		most = max(most, v)
		if i < n {
			first += v / int64(n)
		}
		if i >= len(s.rss)-n {
			last += v / int64(n)
		}
	}
	return first, last, most
}

func mib(n int64) int64 { return n >> 20 }

func TestUsageIsRead(t *testing.T) {
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = byte(i)
	}
	began := time.Now()
	for time.Since(began) < 300*time.Millisecond {
		held[0]++
	}
	u, err := usageOf(os.Getpid())
	if err != nil || u.rss < 64<<20 || u.peak < u.rss || u.cpu < 100*time.Millisecond || u.cpu > time.Hour {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("no such process, and no error")
	}
	s := series{rss: []int64{3, 3, 9, 30, 6, 6}}
	if first, last, most := s.thirds(); first != 2 || last != 6 || most != 30 { // 3/2 is 1, twice
		t.Errorf("thirds %d %d %d", first, last, most)
	}
}
