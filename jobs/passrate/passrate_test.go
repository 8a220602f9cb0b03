package passrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/draw/drawtest"
	"orchard/internal/runner"
)

// stage is a stage over n tasks whose rollouts end as play says.
type stage struct {
	c       Config
	d       runner.Deps
	counted *drawtest.Counted
}

func newStage(t *testing.T, n int, play drawtest.Player) *stage {
	t.Helper()
	root := t.TempDir()
	c := Defaults()
	c.In, c.Out = []string{drawtest.Tasks(t, root, n)}, root+"/rates"
	c.LLM.URL, c.LLM.Model, c.SandboxURL, c.Canary = "http://127.0.0.1:1", "m", "http://127.0.0.1:1", false
	return &stage{c, runner.Deps{Stdout: io.Discard, Stderr: io.Discard, Backoff: time.Millisecond}, &drawtest.Counted{Play: play}}
}

func (s *stage) run(t *testing.T) (runner.Result, error) {
	t.Helper()
	if err := s.c.Validate(); err != nil {
		t.Fatal(err)
	}
	w, err := draw.Wire(s.c.Config, s.c.Options, s.c.Kept, s.d)
	if err != nil {
		t.Fatal(err)
	}
	w.Do, w.Check = s.counted.Do, nil
	return s.c.run(t.Context(), s.d, w)
}

func (s *stage) must(t *testing.T) (runner.Result, map[string]record.PassRate) {
	t.Helper()
	r, err := s.run(t)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]record.PassRate{}
	for _, row := range drawtest.Rows[record.PassRate](t, r.URI) {
		rows[row.TaskID] = row
	}
	return r, rows
}

// scripted ends rollout i of task t by letter i of its word: + - and ? for one that nobody
// could grade, ! for trouble.
func scripted(words map[string]string) drawtest.Player {
	return func(_ context.Context, task string, index int64) drawtest.End {
		word := words[task]
		if int(index) >= len(word) {
			return drawtest.End{Outcome: record.Unresolved}
		}
		switch word[index] {
		case '+':
			return drawtest.End{Outcome: record.Resolved}
		case '-':
			return drawtest.End{Outcome: record.Unresolved}
		case '?':
			return drawtest.End{Outcome: record.NoTestsRan}
		case 'x':
			return drawtest.End{Outcome: record.TaskInvalid}
		}
		return drawtest.End{Err: errors.New("the sandbox is gone")}
	}
}

// With and without early stopping every task has the same decision. (All orders of 8 are
// internal/passrate's test; these are every eighth, which has all numbers of passes.)
func TestEarlyStoppingChangesNoDecision(t *testing.T) {
	t.Parallel()
	const n = 32
	words := map[string]string{}
	for i := range n {
		words[fmt.Sprintf("t%03d", i)] = strings.NewReplacer("0", "-", "1", "+").Replace(fmt.Sprintf("%08b", i*8+i/4))
	}
	s := newStage(t, n, scripted(words))
	s.c.Workers = 16
	_, early := s.must(t)
	played := len(s.counted.Played())
	s.c.Early, s.c.Fresh = false, true
	_, full := s.must(t)
	if all := len(s.counted.Played()); all != n*8 || played >= all {
		t.Errorf("%d rollouts with early stopping, %d without", played, all)
	}
	for task, row := range full {
		if e := early[task]; e.Decision != row.Decision || row.Early || len(row.Draws) != 8 {
			t.Errorf("%s: early %s, full %s of %d", words[task], e.Decision, row.Decision, len(row.Draws))
		}
		passed := strings.Count(words[task], "+")
		if want := passed >= 1 && passed <= 4; (row.Decision == record.PoolKeep) != want || row.Passed != int64(passed) {
			t.Errorf("%s: %s with %d passed", words[task], row.Decision, row.Passed)
		}
		if n := len(early[task].Draws); n < 8 && !early[task].Early || early[task].Draws[n-1].Index != int64(n-1) {
			t.Errorf("%s: early %v after %d draws", words[task], early[task].Early, n)
		}
	}
	t.Logf("%d of %d rollouts played", played, n*8)
}

// What is not known is drawn again, never counted as a failure, and a task of which too
// little is known is neither kept nor dropped.
func TestUnknownIsDrawnAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, 5, scripted(map[string]string{
		"t000": "?-?-+-----",
		"t001": "????????????",
		"t002": "+?+?+?+?+?++",
		"t003": "x",
		"t004": "+-??????????",
	}))
	_, rows := s.must(t)
	for task, want := range map[string]struct {
		decision              string
		valid, passed, wasted int64
		draws                 int
	}{
		"t000": {record.PoolKeep, 5, 1, 2, 7},    // the other 3 cannot take it over a half
		"t001": {record.PoolUnknown, 0, 0, 7, 7}, // 5 more are too few
		"t003": {record.PoolUnknown, 0, 0, 1, 1},
		"t004": {record.PoolUnknown, 2, 1, 7, 9},
	} {
		r := rows[task]
		if r.Decision != want.decision || r.Valid != want.valid || r.Passed != want.passed || r.Unknown != want.wasted || len(r.Draws) != want.draws {
			t.Errorf("%s: %s, %d valid, %d passed, %d unknown of %d draws (%s), want %+v", task, r.Decision, r.Valid, r.Passed, r.Unknown, len(r.Draws), r.Reason, want)
		}
	}
	if r := rows["t002"]; r.Decision != record.PoolDrop || r.Passed < 5 {
		t.Errorf("t002: %+v", r)
	}
	if r := rows["t001"]; r.Rate != nil || r.Low != nil {
		t.Errorf("nothing is known of t001, and its rate is %v", *r.Rate)
	}
}

// Trouble of ours is tried again; when it stays it is a draw without a reward as long as
// the rest decides, and otherwise the task is not finished.
func TestTroubleIsNoFailure(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	word := scripted(map[string]string{"t000": "!+------", "t001": "!!!!!!!!!!!!"})
	s := newStage(t, 2, func(ctx context.Context, task string, index int64) drawtest.End {
		if e := word(ctx, task, index); e.Err == nil || !mended.Load() {
			return e
		}
		return drawtest.End{Outcome: record.Unresolved}
	})
	s.c.MaxRetries = 1
	if _, err := s.run(t); exit.Code(err) != exit.Retry || !strings.Contains(err.Error(), "the sandbox is gone") {
		t.Fatalf("with a task of which nothing could be found out: %v", err)
	}
	if p := s.counted.Played(); p["t000#0"] != 2 || p["t000#1"] != 1 {
		t.Errorf("played %v: rollout 0 of t000 is tried twice, what ended is not", p)
	}
	mended.Store(true)
	_, rows := s.must(t)
	if r := rows["t000"]; r.Decision != record.PoolKeep || r.Unknown != 1 || r.Draws[0].Outcome != record.InfraError || r.Draws[0].Reward != nil || !strings.Contains(r.Draws[0].Trouble, "gone") {
		t.Errorf("t000: %+v", r)
	}
	if r := rows["t001"]; r.Decision != record.PoolDrop || r.Unknown != 0 {
		t.Errorf("t001 after the trouble: %+v", r)
	}
	if p := s.counted.Played(); len(p) == 0 || p["t000#1"] != 0 {
		t.Errorf("played again: %v", p)
	}
}

// More rollouts, other bounds and other runs take the rollouts that are there; other
// weights, another seed and --fresh do not.
func TestRolloutsAreTaken(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, scripted(map[string]string{"t000": "+-+", "t001": "--------+", "t002": "++++++"}))
	s.c.Early = false
	r, _ := s.must(t)
	if n := len(s.counted.Played()); n != 24 {
		t.Fatalf("%d rollouts played, want 24", n)
	}
	rollouts := drawtest.Rows[record.Rollout](t, strings.Replace(strings.Split(r.URI, "@")[0], "/rates", "/rates-rollouts", 1))
	if len(rollouts) != 24 {
		t.Errorf("%d rollouts beside the pass rates", len(rollouts))
	}
	s.c.RunID, s.c.Rule.N = "second", 10
	s.must(t)
	if p := s.counted.Played(); len(p) != 6 {
		t.Errorf("two more rollouts a task: played %v", p)
	}
	for name, change := range map[string]func(*Config){
		"weights": func(c *Config) { c.Weights = "step-2" },
		"seed":    func(c *Config) { c.Seed = 7 },
		"fresh":   func(c *Config) { c.Fresh = true },
		"harness": func(c *Config) { c.Harness = "mini-swe-v1" },
		"tasks of the same ids that say something else": func(c *Config) {
			rows := drawtest.Rows[record.Task](t, c.In[0])
			for i := range rows {
				rows[i].Digest += "0"
			}
			c.In = []string{drawtest.Dataset(t, t.TempDir(), "tasks", rows)}
		},
	} {
		was := s.c
		change(&s.c)
		s.must(t)
		if n := len(s.counted.Played()); n != 30 {
			t.Errorf("%s: %d rollouts played, want all 30", name, n)
		}
		s.c = was
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no rollouts":           {func(c *Config) { c.Rule.N = 0 }, "--rollouts"},
		"more known than drawn": {func(c *Config) { c.Rule.NMin = 9 }, "--min-known"},
		"bounds the wrong way":  {func(c *Config) { c.Rule.Lo, c.Rule.Hi = .5, .2 }, "--above"},
		"nothing between":       {func(c *Config) { c.Rule.Lo, c.Rule.Hi = .51, .6 }, "--above"},
		"name of the output":    {func(c *Config) { c.Rollouts = "a/b" }, "--rollouts-out"},
		"redraws":               {func(c *Config) { c.Redraws = -1 }, "--redraws"},
	} {
		s := newStage(t, 1, scripted(nil))
		c.change(&s.c)
		if err := s.c.Validate(); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want exit %d and %s", name, err, exit.Config, c.says)
		}
	}
	s := newStage(t, 1, scripted(nil))
	s.c.Rollouts = "rates"
	if _, err := draw.Wire(s.c.Config, s.c.Options, s.c.Kept, s.d); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--rollouts-out") {
		t.Errorf("one name for both datasets: %v", err)
	}
}

// Tasks that get a newer version while rollouts are drawn are those of the start to the end:
// the rollouts beside the pass rates are gathered by the same version.
func TestNewerTasksMeanwhile(t *testing.T) {
	t.Parallel()
	var s *stage
	var once sync.Once
	toss := scripted(map[string]string{"t000": "+-+-+-+-", "t001": "--------"})
	s = newStage(t, 2, func(ctx context.Context, task string, index int64) drawtest.End {
		once.Do(func() {
			other := record.Task{TaskID: "other", PreCommands: []string{}, TestCmds: []string{"true"}, FailToPass: []string{"a"}, PassToPass: []string{}}
			drawtest.Dataset(t, filepath.Dir(s.c.In[0]), filepath.Base(s.c.In[0]), []record.Task{other})
		})
		return toss(ctx, task, index)
	})
	r, rows := s.must(t)
	if len(rows) != 2 || rows["t000"].Decision != record.PoolKeep {
		t.Fatalf("pass rates %+v", rows)
	}
	drawn := len(rows["t000"].Draws) + len(rows["t001"].Draws)
	if got := drawtest.Rows[record.Rollout](t, strings.Split(r.URI, "@")[0]+"-rollouts"); len(got) != drawn {
		t.Errorf("%d rollouts for %d draws", len(got), drawn)
	}
}
