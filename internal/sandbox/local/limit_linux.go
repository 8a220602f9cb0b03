package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// cgroup bounds one sandbox.
type cgroup struct {
	h      *hierarchies
	name   string
	oom    *os.File // version 1: an eventfd that counts out-of-memory events
	closed sync.Once
}

// period is the kernel's usual accounting period for processor time, in microseconds.
const period = 100_000

// settings are the files to write, by controller, in order. Files in brackets may be missing.
func settings(v2 bool, l limits) map[string][][2]string {
	quota := max(int64(l.cpu*period), 1000) // the kernel's least
	s := map[string][][2]string{"pids": {{"pids.max", strconv.Itoa(l.processes)}}}
	memory := strconv.FormatInt(l.memory, 10)
	switch {
	case v2 && l.memory > 0:
		// Together: what is left of a half-killed sandbox would answer nonsense.
		s["memory"] = [][2]string{{"memory.max", memory}, {"[memory.swap.max]", "0"}, {"memory.oom.group", "1"}}
	case l.memory > 0:
		s["memory"] = [][2]string{{"memory.limit_in_bytes", memory}, {"[memory.memsw.limit_in_bytes]", memory}}
	}
	switch {
	case v2 && l.cpu > 0:
		s["cpu"] = [][2]string{{"cpu.max", fmt.Sprintf("%d %d", quota, period)}}
	case l.cpu > 0:
		s["cpu"] = [][2]string{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.FormatInt(quota, 10)}}
	}
	return s
}

// newCgroup makes a sandbox's cgroups with their limits; nothing is in them yet.
func (h *hierarchies) newCgroup(name string, l limits) (*cgroup, error) {
	g := &cgroup{h: h, name: name}
	for _, dir := range h.each() {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return nil, errors.Join(err, g.remove(context.Background()))
		}
	}
	for controller, files := range settings(h.v2, l) {
		for _, f := range files {
			file, optional := strings.CutPrefix(f[0], "[")
			file = strings.TrimSuffix(file, "]")
			err := writeCgroup(g.dir(controller), file, f[1])
			if err != nil && !(optional && errors.Is(err, os.ErrNotExist)) {
				return nil, errors.Join(fmt.Errorf("limit %s to %s: %w", file, f[1], err), g.remove(context.Background()))
			}
		}
	}
	if !h.v2 {
		if err := g.listen(); err != nil {
			return nil, errors.Join(fmt.Errorf("watch for out of memory: %w", err), g.remove(context.Background()))
		}
	}
	return g, nil
}

func (g *cgroup) dir(controller string) string { return filepath.Join(g.h.dirs[controller], g.name) }

// add puts a process, with all its threads, into the cgroups.
func (g *cgroup) add(pid int) error {
	for _, dir := range g.h.each() {
		if err := writeCgroup(filepath.Join(dir, g.name), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// listen asks version 1 for events: its kernel kills one process and tells nobody.
func (g *cgroup) listen() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	g.oom = os.NewFile(uintptr(fd), "out-of-memory events")
	control, err := os.Open(filepath.Join(g.dir("memory"), "memory.oom_control"))
	if err != nil {
		return err
	}
	defer control.Close()
	return writeCgroup(g.dir("memory"), "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd()))
}

// waitOOM returns true when the sandbox ran out of memory, false once the cgroup closes.
// In version 2 the kernel ends the whole sandbox by itself: it returns false at once.
func (g *cgroup) waitOOM() bool {
	if g.oom == nil {
		return false
	}
	var count [8]byte
	if _, err := g.oom.Read(count[:]); err != nil {
		return false
	}
	// The removal of a cgroup is an event as well.
	_, err := os.Stat(g.dir("memory"))
	return err == nil
}

// ranOut says whether the kernel killed for lack of memory.
func (g *cgroup) ranOut() bool {
	file := "memory.oom_control"
	if g.h.v2 {
		file = "memory.events"
	}
	raw, err := os.ReadFile(filepath.Join(g.dir("memory"), file))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "oom_kill" && value != "0" {
			return true
		}
	}
	return false
}

// unwatch lets waitOOM return.
func (g *cgroup) unwatch() {
	g.closed.Do(func() {
		if g.oom != nil {
			g.oom.Close()
		}
	})
}

// remove ends what is left inside and removes the cgroups.
func (g *cgroup) remove(ctx context.Context) error {
	g.unwatch()
	var errs []error
	for _, dir := range g.h.each() {
		errs = append(errs, removeCgroup(ctx, filepath.Join(dir, g.name)))
	}
	return errors.Join(errs...)
}
