package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"orchard/internal/seal"
)

// controllers are what a sandbox is limited by.
var controllers = []string{"cpu", "memory", "pids"}

// limits bound a sandbox.
type limits struct {
	cpu       float64 // processors; 0 is no bound
	memory    int64   // bytes; 0 is no bound
	processes int
}

// hierarchies are the cgroup folders that this process can make cgroups in: one by
// controller in version 1, the same for all in version 2.
type hierarchies struct {
	v2   bool
	dirs map[string]string
}

// each is every folder once.
func (h *hierarchies) each() []string {
	var dirs []string
	for _, c := range controllers {
		if !slices.Contains(dirs, h.dirs[c]) {
			dirs = append(dirs, h.dirs[c])
		}
	}
	return dirs
}

// cgroupMounts are where the controllers are: "" is version 2's.
func cgroupMounts() (map[string]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(raw), parseOwn(string(own))), nil
}

// parseOwn is this process's path by controller, of lines such as "4:memory:/a" and "0::/a".
func parseOwn(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own
}

// parseMounts is this process's own folder by controller.
func parseMounts(mountinfo string, own map[string]string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		root, point := fields[3], fields[4]
		// A container sees its own part of the tree, mounted at the top.
		place := func(c string) string {
			rel, ok := strings.CutPrefix(own[c], strings.TrimSuffix(root, "/"))
			if !ok {
				rel = "/"
			}
			return filepath.Join(point, rel)
		}
		switch kind[0] {
		case "cgroup2":
			found[""] = place("")
		case "cgroup":
			for _, c := range strings.Split(kind[2], ",") {
				if slices.Contains(controllers, c) {
					found[c] = place(c)
				}
			}
		}
	}
	return found
}

// newHierarchies makes a folder called name in every hierarchy, as near to this process's
// own cgroup as this process may. What is about to be made is noted in record first.
func newHierarchies(name, record string) (*hierarchies, error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	h := &hierarchies{dirs: map[string]string{}}
	if at, ok := mounts[""]; ok && available(at) {
		h.v2 = true
		dir, err := climb(at, name, record, enable)
		if err != nil {
			return nil, err
		}
		for _, c := range controllers {
			h.dirs[c] = dir
		}
		return h, nil
	}
	for _, c := range controllers {
		at, ok := mounts[c]
		if !ok {
			return nil, fmt.Errorf("this machine has no %s controller", c)
		}
		if h.dirs[c], err = climb(at, name, record, func(string) error { return nil }); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// TryCgroups makes a cgroup as a sandbox's and removes it. It returns which version that
// was; the error says why limits would be partial. Scratch is a folder for its notes.
func TryCgroups(ctx context.Context, scratch string) (version string, err error) {
	h, err := newHierarchies("orchard-try-"+seal.Random(4), filepath.Join(scratch, recordName))
	defer func() { err = errors.Join(err, removeRecordedCgroups(scratch)) }()
	if err != nil {
		return "", err
	}
	g, err := h.newCgroup("try", limits{cpu: 1, memory: leastMemory, processes: 9})
	if err != nil {
		return "", err
	}
	if h.v2 {
		version = "version 2"
	} else {
		version = "version 1"
	}
	return version, g.remove(ctx)
}

// available says whether version 2 has all the controllers, seen from the top.
func available(dir string) bool {
	for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return false
		}
		have := strings.Fields(string(raw))
		if !slices.ContainsFunc(controllers, func(c string) bool { return !slices.Contains(have, c) }) {
			return true
		}
	}
	return false
}

// climb makes name in at or the nearest folder above where prepare and mkdir work.
func climb(at, name, record string, prepare func(parent string) error) (string, error) {
	var first error
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			return "", fmt.Errorf("no cgroup can be made in %s or above: %w", at, first)
		}
		err := makeIn(dir, name, record, prepare)
		if err == nil {
			return filepath.Join(dir, name), nil
		}
		if first == nil {
			first = err
		}
	}
}

func makeIn(dir, name, record string, prepare func(string) error) error {
	if unix.Access(dir, unix.W_OK) != nil {
		return fmt.Errorf("%s: %w", dir, fs.ErrPermission)
	}
	if err := prepare(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, filepath.Join(dir, name))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	made := filepath.Join(dir, name)
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	if err := prepare(made); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

// enable hands the controllers on to the children of a version 2 cgroup.
func enable(dir string) error {
	for _, c := range controllers {
		if err := writeCgroup(dir, "cgroup.subtree_control", "+"+c); err != nil {
			return err
		}
	}
	return nil
}

func writeCgroup(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

const recordName = "cgroups"

// removeRecordedCgroups kills and removes what a service's record names.
func removeRecordedCgroups(serviceDir string) error {
	f, err := os.Open(filepath.Join(serviceDir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), removePatience)
	defer cancel()
	var errs []error
	for lines := bufio.NewScanner(f); lines.Scan(); {
		dir := lines.Text()
		children, err := os.ReadDir(dir)
		if err != nil {
			continue // never made, or gone
		}
		for _, c := range children {
			if c.IsDir() {
				errs = append(errs, removeCgroup(ctx, filepath.Join(dir, c.Name())))
			}
		}
		errs = append(errs, removeCgroup(ctx, dir))
	}
	return errors.Join(errs...)
}

// removePatience is how long dying processes may keep a cgroup busy.
const removePatience = 10 * time.Second

// removeCgroup kills what is left in a cgroup and removes it.
func removeCgroup(ctx context.Context, dir string) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, line := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		case <-again.C:
		}
	}
}
