package bar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/draw/drawtest"
	"orchard/internal/runner"
	"orchard/internal/seal"
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
	c.In, c.Out = []string{drawtest.Tasks(t, root, n)}, root+"/groups"
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
	strategy, err := s.c.strategy()
	if err != nil {
		t.Fatal(err)
	}
	return s.c.run(t.Context(), s.d, strategy, w)
}

// must is the groups of a run, in the order of the round.
func (s *stage) must(t *testing.T) (runner.Result, []record.Group) {
	t.Helper()
	r, err := s.run(t)
	if err != nil {
		t.Fatal(err)
	}
	rows := drawtest.Rows[record.Group](t, r.URI)
	slices.SortFunc(rows, func(a, b record.Group) int { return int(a.Place - b.Place) })
	return r, rows
}

// coin resolves rollout i of a task with probability p, always the same ones.
func coin(p float64) drawtest.Player {
	return func(_ context.Context, task string, index int64) drawtest.End {
		words := strings.Repeat("x", 1+int(uint64(seal.Seed(2, task, fmt.Sprint(index)))%50))
		if float64(uint64(seal.Seed(1, task, fmt.Sprint(index)))%1000)/1000 < p {
			return drawtest.End{Outcome: record.Resolved, Words: words}
		}
		return drawtest.End{Outcome: record.Unresolved, Words: words}
	}
}

// what is a group without what may differ between two runs.
func what(groups []record.Group) []record.Group {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Usage = record.Usage{}
	}
	return groups
}

// Of many prompts of p = .3 nine in ten have a balanced group within 16 rollouts, and with
// a stride of 4 that takes 11.3 of them.
func TestGroupsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	const n = 120
	s := newStage(t, n, coin(.3))
	s.c.Workers = 8
	_, groups := s.must(t)
	var strict, drawn int
	for _, g := range groups {
		drawn += len(g.Draws)
		if g.Kind == "strict" {
			strict++
		}
		var members, passed int64
		for i, d := range g.Draws {
			if d.Index != int64(i) {
				t.Fatalf("group of %s: draw %d is of index %d", g.TaskID, i, d.Index)
			}
			if d.Member {
				members++
				passed += int64(*d.Reward)
			}
		}
		if members != g.Members || passed != g.Passed || g.Usable != (members == 8) || g.Usable == (g.Reason != "") {
			t.Errorf("%s: %d members, %d passed, and it says %+v", g.TaskID, members, passed, g)
		}
	}
	// Four standard deviations: .901 +- .027, 11.3 +- .3.
	if share := float64(strict) / n; share < .79 || share > 1 {
		t.Errorf("strict groups: %.3f of the prompts, want about .901", share)
	}
	if mean := float64(drawn) / n; mean < 10.1 || mean > 12.5 {
		t.Errorf("%.2f rollouts a prompt, want about 11.3", mean)
	}
}

// As many usable groups as asked for, from the first tasks of the round, in any order of
// ending; the tasks behind are not tried, and another round has others and other rollouts.
func TestBatchIsFilledInOrder(t *testing.T) {
	t.Parallel()
	one := newStage(t, 40, coin(.15))
	one.c.Groups, one.c.Workers = 4, 1
	r, want := one.must(t)
	usable := 0
	for _, g := range want {
		if g.Usable {
			usable++
		}
	}
	if usable != 4 || !want[len(want)-1].Usable || r.Dropped[runner.ReasonNotNeeded] != int64(40-len(want)) {
		t.Fatalf("%d usable of %d groups, dropped %v", usable, len(want), r.Dropped)
	}
	many := newStage(t, 40, coin(.15))
	many.c.Groups, many.c.Workers = 4, 9
	_, got := many.must(t)
	if d := cmp.Diff(what(want), what(got)); d != "" {
		t.Errorf("with 9 workers and with 1: %s", d)
	}
	many.c.Round = 1
	r, next := many.must(t)
	seen := map[string]bool{}
	for _, g := range want {
		for _, d := range g.Draws {
			seen[d.RolloutID] = true
		}
	}
	for _, g := range next {
		for _, d := range g.Draws {
			if seen[d.RolloutID] {
				t.Fatalf("rollout %s is of two rounds", d.RolloutID)
			}
		}
	}
	if next[0].TaskID == want[0].TaskID && next[1].TaskID == want[1].TaskID {
		t.Errorf("rounds begin with the same tasks %s, %s", next[0].TaskID, next[1].TaskID)
	}
	rollouts := drawtest.Rows[record.Rollout](t, strings.Replace(strings.Split(r.URI, "@")[0], "/groups", "/groups-rollouts", 1))
	drawn := 0
	for _, g := range next {
		drawn += len(g.Draws)
	}
	if len(rollouts) != drawn {
		t.Errorf("%d rollouts beside the groups, %d draws", len(rollouts), drawn)
	}
}

// Two rounds share no rollout, though each has a strategy that draws another number at most.
func TestRoundsShareNoRollout(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	s := newStage(t, 8, coin(.05))
	for round, strategy := range []string{StrategyBAR, StrategyDAPO, StrategyBAR} {
		s.c.Round, s.c.Strategy, s.c.Draws = int64(round), strategy, 0
		if round == 2 {
			s.c.Draws = 24
		}
		_, groups := s.must(t)
		for _, g := range groups {
			for _, d := range g.Draws {
				if other, ok := seen[d.RolloutID]; ok {
					t.Fatalf("rollout %s, number %d of task %s, is of round %d and %d", d.RolloutID, d.Index, g.TaskID, other, round)
				}
				seen[d.RolloutID] = round
			}
		}
	}
}

// Stopped in the middle of a stride and started again, the round plays no finished rollout
// twice and ends as if nothing had been.
func TestResumesInMidStride(t *testing.T) {
	t.Parallel()
	whole := newStage(t, 6, coin(.4))
	_, want := whole.must(t)
	var calls atomic.Int32
	toss := coin(.4)
	s := newStage(t, 6, func(ctx context.Context, task string, index int64) drawtest.End {
		if n := calls.Add(1); n%7 == 0 {
			return drawtest.End{Err: exit.Gonef("the machine goes down")}
		}
		return toss(ctx, task, index)
	})
	played := map[string]int{}
	var got []record.Group
	for try := 0; ; try++ {
		r, err := s.run(t)
		for name, n := range s.counted.Played() {
			played[name] += n
		}
		if err == nil {
			got = drawtest.Rows[record.Group](t, r.URI)
			break
		}
		if try > 100 {
			t.Fatal(err)
		}
	}
	slices.SortFunc(got, func(a, b record.Group) int { return int(a.Place - b.Place) })
	if d := cmp.Diff(what(want), what(got)); d != "" {
		t.Errorf("after kills and without: %s", d)
	}
	lost := int(calls.Load()) / 7
	total := 0
	for _, n := range played {
		total += n
	}
	if total > len(played)+lost {
		t.Errorf("%d rollouts were played for %d and %d that were lost", total, len(played), lost)
	}
}

// Trouble that stays makes no group of fewer, and drops no task as if it were too hard.
func TestTroubleDropsNoTask(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, func(_ context.Context, _ string, index int64) drawtest.End {
		if index%4 != 0 {
			return drawtest.End{Err: errors.New("no node has room")}
		}
		return drawtest.End{Outcome: record.Resolved}
	})
	s.c.MaxRetries = 0
	if _, err := s.run(t); exit.Code(err) != exit.Retry || !strings.Contains(err.Error(), "no node has room") {
		t.Errorf("%v", err)
	}
}

// Pass rates say which tasks are tried.
func TestPassRatesChoose(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4, coin(.5))
	rates := []record.PassRate{}
	for task, decision := range map[string]string{"t000": record.PoolKeep, "t001": record.PoolDrop, "t002": record.PoolUnknown, "t003": record.PoolKeep} {
		rates = append(rates, record.PassRate{PassRateID: seal.ID(task), TaskID: task, Decision: decision, Draws: []record.Draw{}})
	}
	s.c.In = append(s.c.In, drawtest.Dataset(t, t.TempDir(), "rates", rates))
	_, groups := s.must(t)
	var tasks []string
	for _, g := range groups {
		tasks = append(tasks, g.TaskID)
	}
	slices.Sort(tasks)
	if !slices.Equal(tasks, []string{"t000", "t003"}) {
		t.Errorf("tried %v", tasks)
	}
	s.c.In = s.c.In[1:]
	if _, err := s.run(t); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "add the task dataset") {
		t.Errorf("pass rates alone: %v", err)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"strategy":                {func(c *Config) { c.Strategy = "best" }, "--strategy"},
		"preset":                  {func(c *Config) { c.Preset = "mine" }, "--preset"},
		"fewer drawn than used":   {func(c *Config) { c.Draws = 4 }, "--max-draws"},
		"rho":                     {func(c *Config) { c.Low, c.High = .9, .1 }, "--rho-low"},
		"rho of nothing":          {func(c *Config) { c.Low, c.High = .51, .52 }, "--rho-low"},
		"stride of a fixed size":  {func(c *Config) { c.Strategy, c.Stride = StrategyFixed, 2 }, "--stride"},
		"group of one":            {func(c *Config) { c.Size = 1 }, "--group-size"},
		"groups":                  {func(c *Config) { c.Groups = -1 }, "--groups"},
		"fewer tasks than groups": {func(c *Config) { c.Groups, c.Prompts = 5, 4 }, "--prompts"},
	} {
		s := newStage(t, 1, coin(.5))
		c.change(&s.c)
		if err := s.c.Validate(); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want exit %d and %s", name, err, exit.Config, c.says)
		}
	}
}
