package grade

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

// Trial is a verdict for those who judge the task and not the diff, with what else was seen.
type Trial struct {
	record.Verdict
	// All is the status of every test that was reported, required or not.
	All         map[string]string
	TestsTook   *time.Duration // of the test commands; nil when none was run
	PeakMemory  *int64         // bytes; nil where the sandbox cannot say
	Refused     bool           // the image that the task names will never start
	OutOfMemory bool           // the sandbox used more memory than it may
}

// more is what only a Trial tells.
type more struct {
	all     map[string]string
	took    *time.Duration
	peak    *int64
	refused bool
}

// Try grades as Grade does, once: where a first grading cannot tell, it does not look at
// the base to find out whose fault that is. A nil diff is the base itself, with the task's
// tests on it; an empty one that is not nil is empty_patch.
func (g *Grader) Try(ctx context.Context, task record.Task, diff []byte) (Trial, error) {
	began := g.now()
	wrong := func(err error) (Trial, error) { return Trial{}, fmt.Errorf("grade task %s: %w", task.TaskID, err) }
	own := *g
	own.weigh = true
	f, ok := own.check(task)
	var t Trial
	switch {
	case !ok:
	case diff != nil && empty(diff):
		f = finding{outcome: record.EmptyPatch, reason: "the diff changes no file"}
	default:
		var err error
		f, err = own.attempt(ctx, task, diff)
		if sandbox.IsOutOfMemory(err) {
			t.OutOfMemory = true
			f, err = finding{outcome: record.NoTestsRan, reason: "the sandbox ran out of memory"}, nil
		}
		if err != nil {
			return wrong(err)
		}
	}
	log, err := g.Keep(ctx, f.log)
	if err != nil {
		return wrong(fmt.Errorf("keep the log: %w", err))
	}
	t.Verdict = g.verdict(task, f, log, began)
	t.All, t.TestsTook, t.PeakMemory, t.Refused = f.all, f.took, f.peak, f.refused
	if t.All == nil {
		t.All = map[string]string{}
	}
	return t, nil
}

// Gold is the task's gold patch, empty and not nil when it has none.
func (g *Grader) Gold(ctx context.Context, task record.Task) ([]byte, error) {
	gold, err := g.text(ctx, task.GoldPatch)
	if err != nil {
		return nil, fmt.Errorf("gold patch of task %s: %w", task.TaskID, err)
	}
	if gold == nil {
		gold = []byte{}
	}
	return gold, nil
}

// took is how long the test commands ran together.
func took(runs []ran) *time.Duration {
	var sum time.Duration
	for _, r := range runs {
		sum += r.took
	}
	return &sum
}

// peakScript prints the most memory that the sandbox's control group had, and its limit,
// each as the kernel's second or first interface has them.
const peakScript = `cat /sys/fs/cgroup/memory.peak && exit
cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes /sys/fs/cgroup/memory/memory.limit_in_bytes`

// peak is the most memory that the sandbox used until now, nil where it cannot say.
func (a *attempt) peak(ctx context.Context) (*int64, error) {
	res, err := a.sb.Exec(ctx, sandbox.Command{Shell: "{ " + peakScript + "; } 2>/dev/null", Timeout: ourTimeout})
	if err != nil {
		return nil, fmt.Errorf("ask for the memory that was used: %w", err)
	}
	if res.ExitCode != 0 {
		return nil, nil
	}
	return parsePeak(res.Stdout), nil
}

// parsePeak reads what peakScript printed. The second interface has the file in no group
// but one that was made; of the first, the group of the whole machine has it as well, and
// is told from a sandbox's by having no limit.
func parsePeak(out []byte) *int64 {
	lines := bytes.Fields(out)
	if len(lines) == 0 || len(lines) > 2 {
		return nil
	}
	peak, err := strconv.ParseInt(string(lines[0]), 10, 64)
	if err != nil || peak <= 0 {
		return nil
	}
	if len(lines) == 2 {
		const none = math.MaxInt64 / 2 // the kernel rounds its "no limit" down to a page
		if limit, err := strconv.ParseInt(string(lines[1]), 10, 64); err != nil || limit >= none {
			return nil
		}
	}
	return &peak
}
