package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"orchard/datasets/imports"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// place is a repository on this machine.
type place struct {
	kind imports.RepoKind
	path string
}

// locate finds the repositories that the tasks name and makes them inputs, named by
// their content: a file by its bytes, a folder by the commits that are taken from it.
// Tasks whose repository is not there leave.
func (l *loaded) locate(cfg Config, bad *problems) (map[string]place, error) {
	where := map[string]place{} // by task
	commits := map[place][]string{}
	kept := l.tasks[:0]
	for _, t := range l.tasks {
		if t.Repo != nil {
			path, problem := t.Repo.Locate(t.File, cfg.AllowOutside)
			if problem != nil {
				problem.Place, problem.ID = t.Place, t.Task.TaskID
				l.dropped = append(l.dropped, bad.add(problem))
				continue
			}
			p := place{t.Repo.Kind, path}
			where[t.Task.TaskID] = p
			commits[p] = append(commits[p], t.Task.BaseCommit)
		}
		kept = append(kept, t)
	}
	l.tasks = kept
	for _, p := range sorted(commits) {
		digest := seal.ID(slices.Sorted(slices.Values(commits[p]))...)
		if p.kind != imports.Dir {
			var err error
			if digest, err = imports.SHA256(p.path); err != nil {
				return nil, exit.With(exit.Input, err)
			}
		}
		l.addInput("repository", p.path, digest)
	}
	return where, nil
}

// sorted is the places by path, so that every run has them in the same order.
func sorted[V any](m map[place]V) []place {
	return slices.SortedFunc(maps.Keys(m), func(a, b place) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(string(a.kind), string(b.kind)))
	})
}

// packed is what became of a task's repository.
type packed struct {
	blob, commit string
	problem      *imports.Problem
}

// pack stores the bundles of all tasks, by task. Repositories are packed at the same
// time, the commits of one after another.
func pack(ctx context.Context, tasks []imports.Parsed, where map[string]place, workers int, put func(context.Context, objstore.Body) (string, error)) (map[string]packed, error) {
	groups := map[place][]int{}
	for i, t := range tasks {
		if p, ok := where[t.Task.TaskID]; ok {
			groups[p] = append(groups[p], i)
		}
	}
	results := make([]packed, len(tasks))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, p := range sorted(groups) {
		g.Go(func() error { return packGroup(ctx, p, groups[p], tasks, results, put) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]packed{}
	for i, t := range tasks {
		out[t.Task.TaskID] = results[i]
	}
	return out, nil
}

// packGroup packs the commits of one repository into results.
func packGroup(ctx context.Context, p place, group []int, tasks []imports.Parsed, results []packed, put func(context.Context, objstore.Body) (string, error)) (err error) {
	folder, err := os.MkdirTemp("", "orchard-import-*")
	if err != nil {
		return fmt.Errorf("make a folder in TMPDIR: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	source, err := imports.OpenSource(ctx, p.kind, p.path, folder)
	var broken *imports.Problem
	if errors.As(err, &broken) {
		for _, i := range group {
			results[i].problem = at(tasks[i], broken)
		}
		return nil
	}
	if err != nil {
		return err
	}
	blobs := map[string]string{} // by commit
	for _, i := range group {
		r := &results[i]
		r.commit, err = source.Resolve(ctx, tasks[i].Task.BaseCommit)
		if err == nil && blobs[r.commit] == "" {
			blobs[r.commit], err = packOne(ctx, source, r.commit, put)
		}
		r.blob = blobs[r.commit]
		if errors.As(err, &broken) {
			r.problem = at(tasks[i], broken)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func packOne(ctx context.Context, source *imports.Source, commit string, put func(context.Context, objstore.Body) (string, error)) (string, error) {
	path, err := source.Bundle(ctx, commit)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	blob, err := put(ctx, objstore.File{Path: path, Bytes: info.Size()})
	return blob, errors.Join(err, os.Remove(path))
}

// at is a problem of a repository as one of the task that names it.
func at(t imports.Parsed, p *imports.Problem) *imports.Problem {
	q := *p
	q.Place, q.ID = t.Place, t.Task.TaskID
	return &q
}
