package importer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"orchard/datasets"
	"orchard/datasets/imports"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// Reasons for which rows are dropped, besides those of imports.Problem.
const (
	reasonFilter    = "filter"
	reasonDuplicate = "duplicate"
)

// loaded is what the files hold.
type loaded struct {
	sets    *unpacked
	rows    int64
	tasks   []imports.Parsed
	dropped []string // a reason a row
	inputs  []datasets.Input
	sources []string // default source of each file
}

// maxShown is how many problems are told before the rest is only counted.
const maxShown = 20

// problems collects what is wrong with rows. Unless rows are skipped, it is the error.
type problems struct {
	skip  bool
	shown []string
	count int
}

// add takes a problem and returns the reason to drop its row for.
func (p *problems) add(problem *imports.Problem) string {
	if p.count++; len(p.shown) < maxShown {
		p.shown = append(p.shown, problem.Error())
	}
	return problem.Reason()
}

func (p *problems) err() error {
	switch {
	case p.count == 0 || p.skip:
		return nil
	case p.count == 1:
		return exit.Inputf("%s\nmend it, or leave such rows out with --skip-bad", p.shown[0])
	}
	more := ""
	if n := p.count - len(p.shown); n > 0 {
		more = fmt.Sprintf("\n  and %d more", n)
	}
	return exit.Inputf("%d bad rows:\n  %s%s\nmend them, or leave such rows out with --skip-bad", p.count, strings.Join(p.shown, "\n  "), more)
}

// errLimit ends the reading when --limit is reached.
var errLimit = errors.New("enough tasks")

// load reads the files.
func load(ctx context.Context, cfg Config, sets *unpacked, bad *problems) (*loaded, error) {
	files, err := imports.Files(sets.ins)
	if err != nil {
		return nil, err
	}
	filter, err := imports.NewFilter(cfg.Filter)
	if err != nil {
		return nil, err
	}
	l := &loaded{sets: sets}
	seen := map[string]first{}
	for _, file := range files {
		source := cfg.Source
		if source == "" {
			source, _, _ = strings.Cut(filepath.Base(file), ".")
			if name, ok := sets.name(file); ok {
				source, _, _ = strings.Cut(name, "/")
			}
		}
		l.sources = append(l.sources, source)
		if err := l.addFile(file); err != nil {
			return nil, err
		}
		err := imports.Read(ctx, file, func(row imports.Row, problem *imports.Problem) error {
			if cfg.Limit > 0 && len(l.tasks) == cfg.Limit {
				return errLimit
			}
			l.rows++
			reason, err := l.take(row, problem, source, filter, seen, bad)
			if reason != "" {
				l.dropped = append(l.dropped, reason)
			}
			return err
		})
		if err != nil && !errors.Is(err, errLimit) {
			return nil, err
		}
	}
	return l, nil
}

// addFile makes a file an input, named by its content.
func (l *loaded) addFile(file string) error {
	sha, err := imports.SHA256(file)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	l.addInput("tasks", file, sha)
	return nil
}

func (l *loaded) addInput(role, path, digest string) {
	uri := path
	if abs, err := filepath.Abs(path); err == nil {
		uri = "file://" + filepath.ToSlash(abs)
	}
	if name, ok := l.sets.name(path); ok {
		uri = "builtin:" + name
	}
	l.inputs = append(l.inputs, datasets.Input{Kind: datasets.InputFile, Name: filepath.Base(path), Digest: digest, Role: role, URI: uri})
}

// first is where a task was seen first and what it was.
type first struct{ place, digest string }

// take keeps a row, or says why not.
func (l *loaded) take(row imports.Row, problem *imports.Problem, source string, filter imports.Filter, seen map[string]first, bad *problems) (reason string, err error) {
	if problem != nil {
		return bad.add(problem), nil
	}
	p, problem := imports.Parse(row, source)
	if problem != nil {
		return bad.add(problem), nil
	}
	keep, err := filter.Keep(p)
	if err != nil {
		return "", err
	}
	if !keep {
		return reasonFilter, nil
	}
	p.Row = nil // only the filter needs it, and it is as large as all the rest
	bare := p.Task
	bare.Raw, bare.Source = "", ""
	digest, err := seal.Sum([]any{bare, p.Repo})
	if err != nil {
		return "", err
	}
	if f, ok := seen[p.Task.TaskID]; ok {
		if f.digest == digest {
			return reasonDuplicate, nil
		}
		return bad.add(&imports.Problem{Place: p.Place, ID: p.Task.TaskID, Field: "instance_id",
			What: fmt.Sprintf("is at %s already, with other content; ids must be unique", f.place)}), nil
	}
	seen[p.Task.TaskID] = first{p.Place, digest}
	l.tasks = append(l.tasks, p)
	return "", nil
}
