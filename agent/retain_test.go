package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
)

// testTable has jobs that end as soon as they start, having printed that many bytes.
func testTable(t *testing.T, now *time.Time, printed int) *table {
	t.Helper()
	dir, err := openSpoolDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.close)
	jobs := newTable(dir, nil)
	jobs.now = func() time.Time { return *now }
	jobs.start = func(j *job) {
		j.begin()
		_, _ = j.stdout.Write(make([]byte, printed))
		j.finish(wire.Done, 0, "", "")
		j.view.EndedUS = now.UnixMicro()
		close(j.done)
		jobs.count(j)
		jobs.busy = false
	}
	return jobs
}

func submitAndRelease(t *testing.T, jobs *table, id, key string) *job {
	t.Helper()
	j, _, err := jobs.submit(t.Context(), &wire.ExecRequest{ID: id, Shell: "true", TimeoutMS: 1, IdempotencyKey: key})
	if err != nil {
		t.Fatal(err)
	}
	jobs.release(j)
	return j
}

func (t *table) expireNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
}

func TestEndedJobsExpire(t *testing.T) {
	t.Parallel()
	now := time.Now()
	jobs := testTable(t, &now, 40<<10) // each has a file
	old := submitAndRelease(t, jobs, "old", "key")
	held := submitAndRelease(t, jobs, "held", "")
	if _, err := jobs.get("held"); err != nil {
		t.Fatal(err)
	}
	file := old.stdout.path()
	now = now.Add(keepFor + time.Minute)
	submitAndRelease(t, jobs, "new", "")
	jobs.expireNow()

	if got := len(jobs.list()); got != 2 {
		t.Errorf("%d jobs are kept, want the held and the new one", got)
	}
	if _, err := jobs.get("old"); err == nil || !strings.Contains(err.Error(), "was dropped") {
		t.Errorf("get of a dropped job: %v", err)
	}
	if f, err := jobs.spool.root.Open("old.stdout"); err == nil {
		f.Close()
		t.Errorf("the file %s is left", file)
	}
	for name, req := range map[string]*wire.ExecRequest{
		"its id":  {ID: "old", Shell: "true", TimeoutMS: 1},
		"its key": {ID: "other", Shell: "true", TimeoutMS: 1, IdempotencyKey: "key"},
	} {
		var p *problem
		if _, _, err := jobs.submit(t.Context(), req); !errors.As(err, &p) || p.code != wire.CodeConflict {
			t.Errorf("%s again: got %v, want a conflict: it must never run twice", name, err)
		}
	}
	jobs.release(held)
	jobs.expireNow()
	if got := len(jobs.list()); got != 1 {
		t.Errorf("%d jobs are kept after the release, want 1", got)
	}
}

func TestEndedJobsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	jobs := testTable(t, &now, 20<<10) // in memory
	for i := range 1000 {
		submitAndRelease(t, jobs, fmt.Sprint("job", i), "")
		jobs.expireNow()
	}
	if jobs.memory > keepMemory || jobs.memory < keepMemory/2 {
		t.Errorf("%d bytes are held, the limit is %d", jobs.memory, keepMemory)
	}
	if _, err := jobs.get("job999"); err != nil {
		t.Error(err)
	}
	for i := range keepNames + 10 {
		jobs.gone.add(fmt.Sprint("name", i))
	}
	if len(jobs.gone.has) != keepNames || !jobs.gone.has[fmt.Sprint("name", keepNames+9)] || jobs.gone.has["name0"] {
		t.Errorf("%d names are held", len(jobs.gone.has))
	}
}

func TestDedupWindow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	jobs := testTable(t, &now, 0)
	submit := func(id string) bool {
		t.Helper()
		_, attached, err := jobs.submit(t.Context(), &wire.ExecRequest{ID: id, Shell: "true", TimeoutMS: 1, DedupKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return attached
	}
	submit("a")
	now = now.Add(wire.DedupWindowSeconds*time.Second - time.Millisecond)
	if !submit("b") {
		t.Error("within the window: not attached")
	}
	now = now.Add(2 * time.Millisecond)
	if submit("c") {
		t.Error("after the window: attached")
	}
}
