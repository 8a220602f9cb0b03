package distill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/rollout"
	"orchard/internal/runner"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/seal"
)

// settings is what decides the rows beside the inputs and the model's answers.
type settings struct {
	Policy      string   `json:"policy"`
	Harness     string   `json:"harness"`
	Prompts     string   `json:"prompts"` // sha256 of --prompt-file, "" without
	Rollouts    int      `json:"rollouts"`
	Steps       int      `json:"step_limit"`
	CommandMS   int64    `json:"command_timeout_ms"`
	WallMS      int64    `json:"rollout_timeout_ms"`
	Tokens      int64    `json:"rollout_tokens"`
	Stuck       int      `json:"stuck_limit"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	MaxTokens   int      `json:"max_tokens"`
	TokenIDs    bool     `json:"token_ids"`
	Image       string   `json:"default_image"`
	TestMS      int64    `json:"test_timeout_ms"`
	Canary      bool     `json:"canary"`
	Grader      string   `json:"grader"`
}

func (c Config) settings() (settings, error) {
	s := settings{
		Policy: c.LLM.Model, Harness: c.Harness, Rollouts: c.Rollouts, Steps: c.Steps, CommandMS: c.CommandTimeout.Milliseconds(),
		WallMS: c.Wall.Milliseconds(), Tokens: c.Tokens, Stuck: c.Stuck, Temperature: sent(c.Temperature), TopP: sent(c.TopP),
		MaxTokens: c.MaxTokens, TokenIDs: c.TokenIDs, Image: c.DefaultImage, TestMS: c.TestTimeout.Milliseconds(),
		Canary: c.Canary, Grader: grade.Version,
	}
	if c.PromptFile != "" {
		b, err := os.ReadFile(c.PromptFile)
		if err != nil {
			return s, exit.Configf("--prompt-file: %w", err)
		}
		s.Prompts = seal.Bytes(b)
	}
	return s, nil
}

// sent is a sampling parameter, nil when the server decides.
func sent(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}

// Command is `orchard distill`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	c.SandboxKey = llm.Secret(os.Getenv("SANDBOX_API_KEY"))
	return &cli.Command{
		Name:  "distill",
		Usage: "roll out a teacher on tasks and grade what it did",
		Description: runner.Describe("Plays every task --rollouts times: a sandbox with the task's repository, a harness, the model;\n"+
			"then the diff is graded by the task's tests in a fresh sandbox. Killed anywhere and started\n"+
			"again with the same --run-id, it repeats no finished rollout.",
			"OPENAI_API_KEY            key of the model server", "SANDBOX_API_KEY           key of the sandbox service"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return exit.Configf("distill: unexpected argument %q; datasets are given with --in", ctx.Args().First())
			}
			_, err := Run(ctx.Context, c, d)
			return err
		},
	}
}

// unit is one rollout to play.
type unit struct {
	task  *record.Task
	index int64
}

// Run plays and grades all rollouts.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "distill", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	set, err := c.settings()
	if err != nil {
		return fail(err)
	}
	p, check, err := c.player(d)
	if err != nil {
		return fail(err)
	}
	canaries := &rollout.Canaries{}
	stage := runner.Stage{Name: "distill", Version: Version, Settings: set, Model: true}
	return runner.Rollouts(ctx, c.Config, d, stage, runner.Source[record.Rollout]{
		Ready:   check,
		Outcome: func(r record.Rollout) string { return string(r.Verdict.Outcome) },
		Usage:   func(r record.Rollout) record.Usage { return r.Usage },
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			return units(ctx, p, c.Rollouts, in)
		},
		Do: func(ctx context.Context, u runner.Unit, t runner.Tools) (record.Rollout, error) {
			work, store := u.Work.(unit), rollout.Store{Keep: t.Keep, Blob: t.Blob}
			if c.Canary {
				bad, err := canaries.Check(ctx, work.task.TaskID, func(ctx context.Context) (record.Verdict, error) {
					return p.Grader(store).Canary(ctx, *work.task)
				})
				if err != nil {
					return record.Rollout{}, err
				}
				if bad != nil {
					return p.Unplayed(*work.task, work.index, *bad), nil
				}
			}
			return p.Play(ctx, *work.task, work.index, store)
		},
	})
}

// units are the rollouts of every task, those of one task beside each other.
func units(ctx context.Context, p *rollout.Player, n int, in []*datasets.Version) ([]runner.Unit, error) {
	var list []runner.Unit
	from := map[string]*datasets.Version{} // by task
	for _, v := range in {
		if kind := v.Manifest().Schema.Name; kind != "task" {
			return nil, exit.Inputf("--in %s: holds %s rows, not tasks; `orchard import` makes a task dataset", v.Location(), kind)
		}
		for task, err := range datasets.Rows[record.Task](ctx, v) {
			if err != nil {
				return nil, err
			}
			if other, ok := from[task.TaskID]; ok {
				return nil, exit.Inputf("--in %s: task %s: is in %s already; ids must be unique over all inputs", v.Location(), task.TaskID, other.Location())
			}
			from[task.TaskID] = v
			task.Raw = "" // a rollout needs no more than the columns
			for i := range int64(n) {
				list = append(list, runner.Unit{ID: p.ID(task.TaskID, i), Task: fmt.Sprintf("%s #%d", task.TaskID, i), Work: unit{&task, i}})
			}
		}
	}
	return list, nil
}

// player wires what plays a unit, and the check that model and sandboxes answer.
func (c Config) player(d runner.Deps) (*rollout.Player, func(context.Context) error, error) {
	loop, err := harness.New(c.Harness, harness.Options{PromptFile: c.PromptFile})
	if err != nil {
		return nil, nil, exit.With(exit.Config, err)
	}
	now := d.WithDefaults().Now
	p := &rollout.Player{
		Harness: loop, Policy: c.LLM.Model, Seed: c.Seed, Now: now,
		Sampling: harness.Sampling{Temperature: sent(c.Temperature), TopP: sent(c.TopP), MaxTokens: c.MaxTokens, TokenIDs: c.TokenIDs},
		Limits:   harness.Limits{Steps: c.Steps, CommandTimeout: c.CommandTimeout, Wall: c.Wall, Tokens: c.Tokens, Stuck: c.Stuck},
		Spec: sandbox.Spec{
			Image: c.DefaultImage, CPU: c.CPU, Memory: c.Memory, Lease: 2 * time.Minute,
			Lifetime: c.Wall + c.TestTimeout + 30*time.Minute, Labels: map[string]string{"orchard-run": c.RunID},
		},
	}
	if !c.asks() {
		return p, nil, nil
	}
	client, err := llm.New(c.LLM)
	if err != nil {
		return nil, nil, exit.With(exit.Config, err)
	}
	boxes, err := httpclient.New(httpclient.Options{URL: c.SandboxURL, Key: string(c.SandboxKey)})
	if err != nil {
		return nil, nil, exit.Configf("--sandbox-url: %w", err)
	}
	p.Model, p.Sandboxes = c.LLM.Wrap(client), boxes
	p.Grader = func(store rollout.Store) rollout.Grader {
		return &grade.Grader{Sandboxes: boxes, Spec: p.Spec, Keep: store.Keep, Blob: store.Blob, TestTimeout: c.TestTimeout, Now: now}
	}
	return p, func(ctx context.Context) error {
		if err := answers(client.Check(ctx)); err != nil {
			return err
		}
		return boxes.Check(ctx)
	}, nil
}

// answers marks why a model server cannot be used: it is away, or it is the wrong one.
func answers(err error) error {
	var e *llm.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Class == llm.Unreachable || e.Class == llm.Transient:
		return exit.With(exit.Retry, err)
	}
	return exit.With(exit.Config, err)
}
