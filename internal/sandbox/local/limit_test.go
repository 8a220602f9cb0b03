//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

func openLimited(t *testing.T, change ...func(*Options)) *Runtime {
	t.Helper()
	r := open(t, change...)
	if r.cgroups == nil {
		t.Skip("no cgroup can be made here")
	}
	return r
}

func TestOutOfMemoryIsNamed(t *testing.T) {
	t.Parallel()
	r := openLimited(t)
	st := begin(t, r, sandbox.Spec{Memory: "128Mi"})
	if st.Limits != control.LimitsFull {
		t.Errorf("limits %q", st.Limits)
	}
	job, err := run(t.Context(), r, st.Spec.ID, wire.ExecRequest{Shell: `python3 -c 'x = bytearray(1 << 30)'`})
	if err == nil && job.ExitCode != nil && *job.ExitCode == 0 {
		t.Errorf("a gigabyte fits into 128Mi")
	}
	end := ended(t, r, st.Spec.ID)
	if end.Reason != control.ReasonOOMKilled || !strings.Contains(end.Message, "128Mi") {
		t.Errorf("%s: %s", end.Reason, end.Message)
	}
	nothingLeft(t, r, st.UID)
}

func TestForkBombIsBounded(t *testing.T) {
	t.Parallel()
	r := openLimited(t, func(o *Options) { o.Processes = 100 })
	st := begin(t, r, sandbox.Spec{Memory: "512Mi"})
	out, _ := sh(t, r, st.Spec.ID, `for i in $(seq 300); do sleep 1000 >/dev/null 2>&1 & done 2>&1 | tail -n1; ps -e | wc -l`)
	fields := strings.Fields(out)
	raw, err := os.ReadFile(filepath.Join(r.cgroups.dirs["pids"], st.UID, "pids.current"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err != nil || n > 100 {
		t.Errorf("%d processes run (%v), %v", n, err, fields)
	}
	if err := r.Stop(t.Context(), st.Spec.ID, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, r, st.UID)
}

func TestProcessorsAreBounded(t *testing.T) {
	t.Parallel()
	r := openLimited(t)
	st := begin(t, r, sandbox.Spec{CPU: "250m"})
	file := map[bool]string{false: "cpu.cfs_quota_us", true: "cpu.max"}[r.cgroups.v2]
	raw, err := os.ReadFile(filepath.Join(r.cgroups.dirs["cpu"], st.UID, file))
	if err != nil || !strings.HasPrefix(string(raw), "25000") {
		t.Errorf("%s is %q, %v", file, raw, err)
	}
	if got := must(t, r, st.Spec.ID, "echo $GOMAXPROCS"); got != "1" {
		t.Errorf("GOMAXPROCS is %q", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	l := limits{cpu: 1.5, memory: 1 << 29, processes: 9}
	for _, c := range []struct {
		name string
		v2   bool
		l    limits
		want map[string][][2]string
	}{
		{"version 1", false, l, map[string][][2]string{
			"cpu":    {{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "150000"}},
			"memory": {{"memory.limit_in_bytes", "536870912"}, {"[memory.memsw.limit_in_bytes]", "536870912"}},
			"pids":   {{"pids.max", "9"}},
		}},
		{"version 2", true, l, map[string][][2]string{
			"cpu":    {{"cpu.max", "150000 100000"}},
			"memory": {{"memory.max", "536870912"}, {"[memory.swap.max]", "0"}, {"memory.oom.group", "1"}},
			"pids":   {{"pids.max", "9"}},
		}},
		{"nothing but processes", true, limits{processes: 9}, map[string][][2]string{"pids": {{"pids.max", "9"}}}},
	} {
		if diff := cmp.Diff(c.want, settings(c.v2, c.l)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mountinfo, own string
		want                 map[string]string
	}{
		{"version 2", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", "0::/user.slice/a.scope\n",
			map[string]string{"": "/sys/fs/cgroup/user.slice/a.scope"}},
		{"version 1, joined controllers",
			"33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n34 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n35 31 0:30 / /sys/fs/cgroup/x rw - cgroup cgroup rw,freezer\n",
			"4:cpu,cpuacct:/a\n3:memory:/b/c\n0::/\n",
			map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct/a", "memory": "/sys/fs/cgroup/memory/b/c"}},
		{"a container's part of the tree", "34 31 0:30 /docker/id /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n", "3:pids:/docker/id/x\n",
			map[string]string{"pids": "/sys/fs/cgroup/pids/x"}},
		{"a process outside the mounted part", "34 31 0:30 /docker/id /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n", "3:pids:/other\n",
			map[string]string{"pids": "/sys/fs/cgroup/pids"}},
	} {
		if diff := cmp.Diff(c.want, parseMounts(c.mountinfo, parseOwn(c.own))); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

// TestClimb makes a folder where the nearest cgroup has no room for children, on plain
// folders that look like cgroups.
func TestClimb(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	own := filepath.Join(top, "slice", "scope")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{top, filepath.Dir(own), own} {
		for name, text := range map[string]string{"cgroup.procs": "", "cgroup.controllers": "cpuset cpu memory pids\n", "cgroup.subtree_control": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !available(own) {
		t.Error("the controllers are not seen")
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.controllers"), []byte("memory\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !available(own) {
		t.Error("the controllers of a folder above are not seen")
	}
	record := filepath.Join(t.TempDir(), recordName)
	full := func(dir string) error {
		if dir == own {
			return os.ErrInvalid // processes of its own: no controllers for children
		}
		return nil
	}
	dir, err := climb(own, "orchard-x", record, full)
	if err != nil || dir != filepath.Join(top, "slice", "orchard-x") {
		t.Errorf("made %s, %v", dir, err)
	}
	raw, err := os.ReadFile(record)
	if err != nil || string(raw) != dir+"\n" {
		t.Errorf("noted %q, %v", raw, err)
	}
	if _, err := climb(own, "orchard-x", record, func(string) error { return os.ErrInvalid }); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("no room anywhere: %v", err)
	}
}
