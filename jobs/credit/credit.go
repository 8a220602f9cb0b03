package credit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/rollout"
	"orchard/internal/runner"
	"orchard/jobs/credit/curve"
)

// Command is `orchard credit`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "credit",
		Usage: "say which steps of failed rollouts are worth training",
		Description: runner.Describe("Asks the teacher that rolled out, now that the outcome is known, how likely success was at a few\n"+
			"key steps (or grades the diff after each step), and marks the steps where it rises. Writes a row\n"+
			"a rollout, and calibration.md and calibration.json beside them; `orchard sft-export --credit` takes it.",
			"OPENAI_API_KEY            key of the model server", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("credit", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// work is one rollout.
type work struct {
	version int // of the inputs
	outcome record.Outcome
	unknown bool // without a reward
}

// stage is a run of the stage.
type stage struct {
	Config
	feed  *feed
	model llm.Model

	grader  func(rollout.Store) rollout.Grader
	tasks   map[string]*record.Task
	grading grading
}

// Run values the steps of all rollouts.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "credit", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	d = d.WithDefaults()
	rollouts := len(c.In)
	compare, err := c.inputs(ctx, d)
	if err != nil {
		return fail(err)
	}
	s := &stage{Config: c}
	check, err := s.wire(d)
	if err != nil {
		return fail(err)
	}
	reading, end := context.WithCancel(context.WithoutCancel(ctx)) // a unit may finish after a stop
	s.feed = &feed{ctx: reading, spare: 4 * c.Workers}
	defer func() { s.feed.close(); end() }()
	what := runner.Stage{Name: "credit", Version: Version, Settings: c.settings(), Model: c.Method == record.CreditTeacher}
	return runner.Rollouts(ctx, c.Config, d, what, runner.Source[record.Credit]{
		Ready:   check,
		Outcome: func(r record.Credit) string { return r.Status },
		Usage:   func(r record.Credit) record.Usage { return r.Usage },
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			s.feed.versions = in[:rollouts]
			return s.units(ctx, in, rollouts)
		},
		Do: s.do,
		Files: func(ctx context.Context, v *datasets.Version, put func(string, []byte) error) error {
			return report(ctx, v, compare, put)
		},
	})
}

// inputs makes --tasks and --compare inputs like any other, so that they are part of the
// key and of the lineage. Their version is fixed here.
func (c *Config) inputs(ctx context.Context, d runner.Deps) (compare *datasets.Version, err error) {
	if c.Mode == runner.ModeCheck { // which may be before there are datasets
		return nil, nil
	}
	c.In = append([]string{}, c.In...)
	for _, in := range []struct{ flag, uri, kind, maker string }{{"tasks", c.Tasks, "task", "import"}, {"compare", c.Compare, "credit", "credit"}} {
		if in.uri == "" {
			continue
		}
		v, err := runner.OpenAs(ctx, d.Open, in.flag, in.uri, in.kind, in.maker)
		if err != nil {
			return nil, err
		}
		if in.kind == "credit" {
			compare = v
		}
		c.In = append(c.In, v.Location().String())
	}
	return compare, nil
}

// units is a unit a rollout, in the order of the datasets.
func (s *stage) units(ctx context.Context, in []*datasets.Version, rollouts int) ([]runner.Unit, error) {
	var list []runner.Unit
	from, failed := map[string]int{}, map[string]bool{}
	columns := datasets.WithColumns("rollout_id", "task_id", "policy", "index", "verdict.outcome", "verdict.reward")
	for n, v := range in[:rollouts] {
		if err := runner.Want(v, "in", "rollout", "distill"); err != nil {
			return nil, err
		}
		for r, err := range datasets.Rows[record.Rollout](ctx, v, columns) {
			if err != nil {
				return nil, err
			}
			if other, ok := from[r.RolloutID]; ok {
				return nil, exit.Inputf("--in %s: rollout %s: is in %s already; ids must be unique over all inputs", v.Location(), r.RolloutID, in[other].Location())
			}
			from[r.RolloutID] = n
			w := work{version: n, outcome: r.Verdict.Outcome, unknown: r.Verdict.Reward == nil}
			asked := !w.unknown && w.outcome != record.Resolved
			if asked && s.Method == record.CreditTeacher && !s.AnyPolicy && r.Policy != s.LLM.Model {
				return nil, exit.Configf("--llm-model: %q is not %q, the policy of rollout %s in %s, and a trajectory is valued by its own teacher; --any-policy asks it all the same",
					s.LLM.Model, r.Policy, r.RolloutID, v.Location())
			}
			if asked {
				failed[r.TaskID] = true
			}
			list = append(list, runner.Unit{ID: r.RolloutID, Task: fmt.Sprintf("%s #%d", r.TaskID, r.Index), Work: w})
		}
	}
	return list, s.loadTasks(ctx, in[rollouts:], failed)
}

// do values the steps of one rollout.
func (s *stage) do(ctx context.Context, u runner.Unit, t runner.Tools) (record.Credit, error) {
	w := u.Work.(work)
	switch {
	case w.unknown:
		return record.Credit{}, runner.Drop("no_reward_"+string(w.outcome), errors.New("nobody knows how it ended"))
	case w.outcome == record.Resolved && s.Resolved == ResolvedDrop:
		return record.Credit{}, runner.Drop("resolved", errors.New("--resolved drop"))
	}
	r, err := s.feed.get(ctx, w.version, u.ID)
	if err != nil {
		return record.Credit{}, trouble(err)
	}
	row, err := blank(r, s.Method)
	switch {
	case err != nil:
		return row, err
	case w.outcome == record.Resolved:
		row.Status = record.CreditNotNeeded
		if row.Steps > 0 {
			row.Segments = []record.Segment{{Begin: 0, End: row.Steps}}
		}
		row.Trained = trained(row.Segments)
		return row, nil
	case s.Method == record.CreditExecution:
		return s.execute(ctx, row, r, t)
	}
	return s.teach(ctx, row, r, t)
}

// trouble takes the mark of bad input from an error, which would drop the unit for good:
// a dataset that was read once and is not readable now is not the rollout's fault.
func trouble(err error) error {
	if exit.Code(err) == exit.Input {
		return exit.With(exit.Retry, err)
	}
	return err
}

// blank is a row of which nothing is known yet.
func blank(r record.Rollout, method string) (record.Credit, error) {
	sum, err := export.TrajectorySum(r)
	return record.Credit{
		RolloutID: r.RolloutID, TaskID: r.TaskID, Policy: r.Policy, Harness: r.Harness, Outcome: r.Verdict.Outcome,
		Trajectory: sum, Steps: int64(len(r.Trajectory.Steps)), Method: method,
		Keys: []record.KeyStep{}, Values: []*float64{}, Credits: []*float64{}, Rises: []record.Segment{}, Segments: []record.Segment{},
		Trained: []int64{}, Answers: []record.CreditAnswer{}, Grades: []record.DiffGrade{},
	}, err
}

// draw puts a curve into a row.
func draw(row *record.Credit, c curve.Curve) {
	row.Values, row.Credits = nullable(c.Values), nullable(c.Credits)
	row.Rises, row.Segments = ranges(c.Rises), ranges(c.Segments)
	row.Trained = trained(row.Segments)
}

func nullable(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		if !math.IsNaN(v) {
			out[i] = &v
		}
	}
	return out
}

func ranges(list []curve.Range) []record.Segment {
	out := make([]record.Segment, len(list))
	for i, r := range list {
		out[i] = record.Segment{Begin: int64(r.Begin), End: int64(r.End)}
	}
	return out
}

func trained(segments []record.Segment) []int64 {
	out := []int64{}
	for _, s := range segments {
		for t := s.Begin; t < s.End; t++ {
			out = append(out, t)
		}
	}
	return out
}
