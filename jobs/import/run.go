package importer

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"orchard/datasets/imports"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Version rises whenever the same files give other tasks.
const Version = 1

// settings is what decides the result besides the files.
type settings struct {
	Sources []string `json:"sources"` // of each file
	Filter  string   `json:"filter"`
	Limit   int      `json:"limit"`
	SkipBad bool     `json:"skip_bad"`
}

// Run imports the files of cfg.In into the dataset cfg.Out.
func Run(ctx context.Context, cfg Config, deps runner.Deps) (res runner.Result, err error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(cfg.Config, "import", err) }
	if err := cfg.Validate(); err != nil {
		return fail(err)
	}
	sets, err := unpack(cfg)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, sets.remove()) }()
	bad := &problems{skip: cfg.SkipBad}
	l, err := load(ctx, cfg, sets, bad)
	if err != nil {
		return fail(err)
	}
	where, err := l.locate(cfg, bad)
	if err == nil {
		err = bad.err()
	}
	if err != nil {
		return fail(err)
	}
	stage := runner.Stage{
		Name: "import", Version: Version, Inputs: l.inputs,
		Settings: settings{Sources: l.sources, Filter: cfg.Filter, Limit: cfg.Limit, SkipBad: cfg.SkipBad},
	}
	return runner.Batch(ctx, cfg.Config, deps, stage, func(ctx context.Context, p *runner.Pass[record.Task]) error {
		return write(ctx, p, cfg, l, where, bad)
	})
}

// write packs the repositories and emits the tasks.
func write(ctx context.Context, p *runner.Pass[record.Task], cfg Config, l *loaded, where map[string]place, bad *problems) error {
	p.Read(l.rows)
	for _, reason := range l.dropped {
		p.Drop(reason)
	}
	repos, err := pack(ctx, l.tasks, where, cfg.Workers, p.PutBlob)
	if err != nil {
		return err
	}
	bare := 0
	for _, parsed := range l.tasks {
		t := parsed.Task
		if r := repos[t.TaskID]; r.problem != nil {
			p.Drop(bad.add(r.problem))
			continue
		} else if r.commit != "" {
			t.RepoBlob, t.BaseCommit = r.blob, r.commit
		}
		if t.RepoBlob == "" && t.Image == "" {
			bare++
		}
		for _, text := range []*record.Text{&t.GoldPatch, &t.TestPatch} {
			if *text, err = p.Keep(ctx, []byte(text.Value)); err != nil {
				return err
			}
		}
		if err := imports.Seal(&t); err != nil {
			return exit.With(exit.Bug, err)
		}
		if err := p.Emit(ctx, t); err != nil {
			return err
		}
	}
	if bare > 0 {
		zerolog.Ctx(ctx).Warn().Int("tasks", bare).Msg("tasks name neither an image nor a repository; they need a --default-image that holds theirs")
	}
	return bad.err()
}
