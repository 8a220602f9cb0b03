package dedup

import (
	"context"

	"github.com/urfave/cli/v2"

	"orchard/datasets/record"
	"orchard/internal/cosine"
	"orchard/internal/runner"
	"orchard/jobs/dedup/greedy"
	"orchard/jobs/dedup/minhash"
)

// Command is `orchard dedup`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	return &cli.Command{
		Name:  "dedup",
		Usage: "leave out tasks that are duplicates of others",
		Description: runner.Describe("Reads task datasets and writes the tasks that stay. Beside them: removed.jsonl (each removed\n"+
			"task with the one that stays for it) and funnel.json.", "OPENAI_API_KEY            key of the model server"),
		Flags:        Flags(&c),
		OnUsageError: runner.UsageError,
		Action: runner.Action("dedup", "datasets are given with --in", func(ctx context.Context) error {
			_, err := Run(ctx, c, d)
			return err
		}),
	}
}

// Run decides all tasks.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "dedup", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	source, err := c.embedding().Open(c.Out, c.Workers, d.WithDefaults().Open)
	if err == nil && c.Mode == runner.ModeCheck {
		err = source.Check(ctx)
	}
	if err != nil {
		return fail(err)
	}
	stage := runner.Stage{Name: "dedup", Version: Version, Settings: c.settings(), Model: c.embedding().Asks()}
	return runner.Batch(ctx, c.Config, d, stage, func(ctx context.Context, p *runner.Pass[record.Task]) error {
		tasks, err := read(ctx, c, p.Inputs)
		if err != nil {
			return err
		}
		done, err := decide(ctx, c, tasks, source.Embed)
		if err != nil {
			return err
		}
		return write(ctx, c, p, tasks, done)
	})
}

// blockRows is how many tasks are searched for together, and recallSample how many are
// compared with everything when a search was approximate.
const (
	blockRows    = 1024
	recallSample = 20_000
)

// decided is what became of the tasks, by their place in the order.
type decided struct {
	rows    []greedy.Decision
	methods []string // by Decision.By
	tooLong map[int]bool
	recall  *cosine.Recall
}

// decide is the stage without its inputs and outputs. Vectors are asked for a block at a
// time, and only for tasks that no cheaper method has found.
func decide(ctx context.Context, c Config, tasks []*entry, vectors func(context.Context, []string) ([][]float32, error)) (decided, error) {
	text := func(row int) string { return tasks[row].text }
	out := decided{tooLong: map[int]bool{}}
	var err error
	if out.methods, err = c.methods(); err != nil {
		return out, err
	}
	var finders []greedy.Finder
	var close *cosine.Finder
	for _, m := range out.methods {
		switch m {
		case MethodExact:
			finders = append(finders, &exactFinder{text, map[string]int{}})
		case MethodMinHash:
			f, err := minhash.NewFinder(c.minhash(), text)
			if err != nil {
				return out, err
			}
			finders = append(finders, f)
		case MethodSemantic:
			if close, err = cosine.NewFinder(cosine.Options{Tau: c.Tau, Workers: c.Workers, Matryoshka: c.Matryoshka, Seed: uint64(c.Seed)}); err != nil {
				return out, err
			}
			if c.Approximate == ApproximateAlways || c.Approximate == ApproximateAuto && len(tasks) > approximateOver {
				step := max(1, len(tasks)/recallSample)
				close.Approximate(func(row int) bool { return row%step == 0 })
			}
			finders = append(finders, &semanticFinder{
				Finder: close, text: text, name: func(row int) string { return tasks[row].id }, embed: vectors,
				refused: map[int]string{}, beside: map[int]bool{}, tooLong: out.tooLong,
			})
		}
	}
	if out.rows, err = greedy.Run(ctx, len(tasks), blockRows, finders...); err == nil && close != nil {
		out.recall, err = close.Recall(ctx)
	}
	return out, err
}
