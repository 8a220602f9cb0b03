package importer

import (
	"context"
	"errors"
	"os"

	"github.com/rs/zerolog"

	"orchard/datasets/imports"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Version rises whenever the same files give other rows.
const Version = 2

// settings is what decides the result besides the files.
type settings struct {
	Sources []string `json:"sources"` // of each file
	Formats []string `json:"formats"` // of each file
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
	sets, err := unpack(ctx, cfg, deps.WithDefaults().Open)
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
	s := settings{Filter: cfg.Filter, Limit: cfg.Limit, SkipBad: cfg.SkipBad}
	for _, f := range l.files {
		s.Sources, s.Formats = append(s.Sources, f.source), append(s.Formats, f.format.Name)
	}
	stage := runner.Stage{Name: "import", Version: Version, Inputs: l.inputs, Settings: s}
	if l.rollouts {
		return runner.Batch(ctx, cfg.Config, deps, stage, func(ctx context.Context, p *runner.Pass[record.Rollout]) error {
			return writeRollouts(ctx, p, l)
		})
	}
	return runner.Batch(ctx, cfg.Config, deps, stage, func(ctx context.Context, p *runner.Pass[record.Task]) error {
		return writeTasks(ctx, p, cfg, l, where, bad)
	})
}

// writeTasks packs the repositories and emits the tasks.
func writeTasks(ctx context.Context, p *runner.Pass[record.Task], cfg Config, l *loaded, where map[string]place, bad *problems) error {
	repos, err := pack(ctx, l.repos, where, cfg.Workers, p.PutBlob)
	if err != nil {
		return err
	}
	bare := 0
	err = write(ctx, p, l, func(parsed *imports.Parsed) (bool, record.Task, error) {
		t := parsed.Task
		if parsed.Repo != nil {
			r, ok := repos[t.TaskID]
			switch {
			case !ok: // it was not found, and is counted
				return false, t, nil
			case r.problem != nil:
				p.Drop(bad.add(r.problem))
				return false, t, nil
			}
			t.RepoBlob, t.BaseCommit = r.blob, r.commit
		}
		if t.RepoBlob == "" && t.Image == "" && t.Goal == nil {
			bare++
		}
		return true, t, imports.Seal(&t)
	})
	if err != nil {
		return err
	}
	if bare > 0 {
		zerolog.Ctx(ctx).Warn().Int("tasks", bare).Msg("tasks name neither an image nor a repository; they need a --default-image that holds theirs")
	}
	return bad.err()
}

// writeRollouts emits the rollouts. They are counted among those of one task, policy and
// harness in the order of the files.
func writeRollouts(ctx context.Context, p *runner.Pass[record.Rollout], l *loaded) error {
	count := map[[16]byte]int64{}
	return write(ctx, p, l, func(parsed *imports.Parsed) (bool, record.Rollout, error) {
		r := *parsed.Rollout
		group := short([]byte(r.TaskID + "\x00" + r.Policy + "\x00" + r.Harness))
		r.Index = count[group]
		count[group]++
		return true, r, nil
	})
}

// write reads the kept rows once more and emits what row makes of them.
func write[R record.Row](ctx context.Context, p *runner.Pass[R], l *loaded, row func(*imports.Parsed) (bool, R, error)) error {
	p.Read(l.rows)
	for reason, n := range l.dropped {
		for range n {
			p.Drop(reason)
		}
	}
	for _, f := range l.files {
		err := f.again(ctx, func(parsed *imports.Parsed) error {
			for _, text := range parsed.Texts() {
				var err error
				if *text, err = p.Keep(ctx, []byte(text.Value)); err != nil {
					return err
				}
			}
			keep, out, err := row(parsed)
			if err != nil {
				return exit.With(exit.Bug, err)
			}
			if !keep {
				return nil
			}
			return p.Emit(ctx, out)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// again visits the kept rows of a file. A file that is another than it was would give
// rows that nobody looked at.
func (f *taskFile) again(ctx context.Context, visit func(*imports.Parsed) error) error {
	changed := exit.Inputf("%s: was changed while it was imported; run the import again", f.path)
	info, err := os.Stat(f.path)
	if err != nil || info.Size() != f.bytes || !info.ModTime().Equal(f.changed) {
		return changed
	}
	if info.IsDir() { // whose time says nothing of the files below
		if sha, err := imports.SHA256(f.path); err != nil || sha != f.sha {
			return changed
		}
	}
	n := int64(0)
	err = imports.Read(ctx, f.path, func(row imports.Row, problem *imports.Problem) error {
		if n == f.rows {
			return errLimit
		}
		n++
		if !f.keep.at(n - 1) {
			return nil
		}
		if problem == nil {
			var parsed imports.Parsed
			if parsed, problem = f.format.Parse(row, f.source); problem == nil {
				return visit(&parsed)
			}
		}
		return changed
	})
	if errors.Is(err, errLimit) {
		err = nil
	}
	if err == nil && n != f.rows {
		err = changed
	}
	return err
}
