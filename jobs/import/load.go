package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/imports"
	"orchard/internal/exit"
)

// Reasons for which rows are dropped, besides those of imports.Problem.
const (
	reasonFilter    = "filter"
	reasonDuplicate = "duplicate"
)

// loaded is what is known of the files after they were read once. Of a row only which
// it is stays, so that a million of them need little memory: the rows that are kept are
// read again when they are written.
type loaded struct {
	sets     *unpacked
	files    []*taskFile
	rollouts bool // what the rows are; set by the first file
	rows     int64
	kept     int64
	dropped  map[string]int64 // by reason
	inputs   []datasets.Input
	repos    []repoTask // tasks that name a repository
	seen     seen
}

// taskFile is one file, or one folder with tasks that are folders.
type taskFile struct {
	path    string
	source  string // of tasks that do not name theirs
	format  *imports.Format
	changed time.Time // when it was read first
	bytes   int64
	sha     string
	rows    int64 // that were visited; fewer than it has when --limit ended the reading
	keep    bits
}

// problems collects what is wrong with rows. Unless rows are skipped, it is the error.
type problems struct {
	skip  bool
	shown []string
	count int
}

// maxShown is how many problems are told before the rest is only counted.
const maxShown = 20

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
	paths, err := imports.Files(sets.ins)
	if err != nil {
		return nil, err
	}
	filter, err := imports.NewFilter(cfg.Filter)
	if err != nil {
		return nil, err
	}
	l := &loaded{sets: sets, dropped: map[string]int64{}, seen: seen{}}
	for _, path := range paths {
		f, err := l.open(ctx, cfg, path)
		if err != nil {
			return nil, err
		}
		err = imports.Read(ctx, path, func(row imports.Row, problem *imports.Problem) error {
			if cfg.Limit > 0 && l.kept == int64(cfg.Limit) {
				return errLimit
			}
			l.rows++
			f.rows++
			reason, err := l.take(f, row, problem, filter, bad)
			f.keep.add(reason == "" && err == nil)
			if reason != "" {
				l.dropped[reason]++
			}
			return err
		})
		if err != nil && !errors.Is(err, errLimit) {
			return nil, err
		}
	}
	return l, nil
}

// open finds out what a file is and makes it an input, named by its content.
func (l *loaded) open(ctx context.Context, cfg Config, path string) (*taskFile, error) {
	f := &taskFile{path: path, source: cfg.Source}
	if f.source == "" {
		f.source, _, _ = strings.Cut(filepath.Base(path), ".")
		if _, source, ok := l.sets.origin(path); ok && source != "" {
			f.source = source
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	f.changed, f.bytes = info.ModTime(), info.Size()
	if cfg.Format != "" {
		f.format, err = imports.FormatByName(cfg.Format)
	} else {
		f.format, err = imports.Detect(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	if len(l.files) > 0 && f.format.Rollouts != l.rollouts {
		return nil, exit.Inputf("%s has the format %s and %s the format %s: tasks and rollouts are datasets of their own; import them one after the other",
			l.files[0].path, l.files[0].format, path, f.format)
	}
	l.rollouts = f.format.Rollouts
	l.files = append(l.files, f)
	if f.sha, err = l.addFile("tasks", path); err != nil {
		return nil, err
	}
	if beside := imports.Answers(path); beside != "" && !info.IsDir() {
		if _, err := l.addFile("answers", beside); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (l *loaded) addFile(role, path string) (sha string, err error) {
	if sha, err = imports.SHA256(path); err != nil {
		return "", exit.With(exit.Input, err)
	}
	l.addInput(role, path, sha)
	return sha, nil
}

func (l *loaded) addInput(role, path, digest string) {
	uri := path
	if abs, err := filepath.Abs(path); err == nil {
		uri = "file://" + filepath.ToSlash(abs)
	}
	if from, _, ok := l.sets.origin(path); ok {
		uri = from
	}
	l.inputs = append(l.inputs, datasets.Input{Kind: datasets.InputFile, Name: filepath.Base(path), Digest: digest, Role: role, URI: uri})
}

// take keeps a row, or says why not.
func (l *loaded) take(f *taskFile, row imports.Row, problem *imports.Problem, filter imports.Filter, bad *problems) (reason string, err error) {
	if problem != nil {
		return bad.add(problem), nil
	}
	p, problem := f.format.Parse(row, f.source)
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
	again, other, err := l.seen.add(&p, len(l.files)-1, f.rows)
	switch {
	case err != nil:
		return "", err
	case again:
		return reasonDuplicate, nil
	case other != nil:
		what := fmt.Sprintf("is in row %d of %s already, with other content; ids must be unique", other.row, l.files[other.file].path)
		return bad.add(&imports.Problem{Place: p.Place, ID: p.Name(), Field: "instance_id", What: what}), nil
	}
	if p.Repo != nil {
		l.repos = append(l.repos, repoTask{id: p.Task.TaskID, base: p.Task.BaseCommit, place: p.Place, file: p.File, ref: *p.Repo})
	}
	l.kept++
	return "", nil
}
