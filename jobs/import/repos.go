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

// repoTask is a task that names a repository.
type repoTask struct {
	id, base, place, file string
	ref                   imports.RepoRef
}

// locate finds the repositories that the tasks name and makes them inputs, named by
// their content: a file by its bytes, a folder by the commits that are taken from it.
// Tasks whose repository is not there leave.
func (l *loaded) locate(cfg Config, bad *problems) (map[string]place, error) {
	where := map[string]place{} // by task
	commits := map[place][]string{}
	kept := l.repos[:0]
	for _, t := range l.repos {
		path, problem := t.ref.Locate(t.file, cfg.AllowOutside)
		if problem != nil {
			l.dropped[bad.add(at(t, problem))]++
			continue
		}
		p := place{t.ref.Kind, path}
		where[t.id] = p
		commits[p] = append(commits[p], t.base)
		kept = append(kept, t)
	}
	l.repos = kept
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
func pack(ctx context.Context, tasks []repoTask, where map[string]place, workers int, put func(context.Context, objstore.Body) (string, error)) (map[string]packed, error) {
	groups := map[place][]int{}
	for i, t := range tasks {
		groups[where[t.id]] = append(groups[where[t.id]], i)
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
		out[t.id] = results[i]
	}
	return out, nil
}

// packGroup packs the commits of one repository into results.
func packGroup(ctx context.Context, p place, group []int, tasks []repoTask, results []packed, put func(context.Context, objstore.Body) (string, error)) (err error) {
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
		r.commit, err = source.Resolve(ctx, tasks[i].base)
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
func at(t repoTask, p *imports.Problem) *imports.Problem {
	q := *p
	q.Place, q.ID = t.place, t.id
	return &q
}
