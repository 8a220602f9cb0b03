package admit

import (
	"context"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Command is `orchard admit`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "admit",
		Usage: "find out which tasks are fit to be used",
		Description: runner.Describe("Grades every task with its gold patch and without any patch, --repeats times each, every time\n"+
			"in a fresh sandbox without network. Admitted is a task whose gold patch is resolved every\n"+
			"time, with the same statuses of its required tests, and of whose fail_to_pass at least one\n"+
			"does not pass without it, every time. Other tasks are quarantined, with a reason and the\n"+
			"evidence. A grading that was done once is not done again, in this run or another, while the\n"+
			"task, the grader and the limits are the same.",
			"SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("admit", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Admitted is what the outcome of a row is called that has no reason against its task.
const Admitted = "admitted"

// Run grades all tasks.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "admit", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	grader, check, err := c.Grading(c.Config, d.WithDefaults().Now)
	if err != nil {
		return fail(err)
	}
	j := judge{cfg: c, grader: grader}
	stage := runner.Stage{Name: "admit", Version: Version, Settings: c.settings()}
	return runner.Rollouts(ctx, c.Config, d, stage, runner.Source[record.Admission]{
		Ready: check,
		Outcome: func(a record.Admission) string {
			if a.Admitted {
				return Admitted
			}
			return a.Reason
		},
		Usage: func(a record.Admission) record.Usage { return record.Usage{SandboxMS: a.TotalMS} },
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			var list []runner.Unit
			err := play.Tasks(ctx, in, func(task *record.Task) error {
				list = append(list, runner.Unit{ID: id(task.TaskID), Task: task.TaskID, Work: task})
				return nil
			})
			return list, err
		},
		Do:    j.do,
		Files: files,
	})
}
