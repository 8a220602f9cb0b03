package imports

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"orchard/internal/exit"
)

// BaseRef is the only ref of a packed repository; it points at the base commit.
const BaseRef = "refs/heads/base"

// Source is a repository that bundles are packed from, copied out of what a row
// names into a private bare repository. For one goroutine.
type Source struct {
	git  *git
	kind RepoKind
	from string // path of what the row names
	bare string // the private copy
	n    int    // bundles made
}

// OpenSource reads the repository at path into folder, a private temporary folder that
// the caller removes. Trouble with the repository itself is a *Problem.
func OpenSource(ctx context.Context, kind RepoKind, path, folder string) (*Source, error) {
	g, err := newGit(folder)
	if err != nil {
		return nil, err
	}
	s := &Source{git: g, kind: kind, from: path, bare: filepath.Join(folder, "repo.git")}
	if _, err := g.run(ctx, folder, nil, "init", "--quiet", "--bare", "--template=", s.bare); err != nil {
		return nil, s.explain(err)
	}
	switch kind {
	case Bundle:
		_, err = g.run(ctx, s.bare, nil, "bundle", "unbundle", path)
	case FastImport:
		var f *os.File
		if f, err = os.Open(path); err != nil {
			return nil, s.explain(err)
		}
		defer f.Close()
		_, err = g.run(ctx, s.bare, f, "fast-import", "--quiet")
	case Dir:
		var shallow string
		if shallow, err = g.run(ctx, path, nil, "rev-parse", "--is-shallow-repository"); shallow == "true" {
			return nil, s.problem("is a shallow clone, so its history is not whole; run git fetch --unshallow in it")
		}
	}
	return s, s.explain(err)
}

// Resolve is the full id of a commit, which may be abbreviated.
func (s *Source) Resolve(ctx context.Context, commit string) (string, error) {
	where := s.bare
	if s.kind == Dir {
		where = s.from
	}
	full, err := s.git.run(ctx, where, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}")
	var ended *gitError
	switch {
	case errors.As(err, &ended) && ended.words != "":
		return "", problemf(colBase[0], "%s in %s: %s", commit, filepath.Base(s.from), ended.words)
	case errors.As(err, &ended), err == nil && !strings.HasPrefix(full, commit):
		return "", problemf(colBase[0], "the %s %s has no commit %s; pack the repository with its whole history", s.kind, filepath.Base(s.from), commit)
	}
	return full, err
}

// Bundle writes the history up to commit, a full id, as a git bundle with the one ref
// BaseRef, and returns its path in the source's folder. Deltas and compression are
// made anew with fixed settings, so however the source was packed, the same history
// gives the same bytes with the same git.
func (s *Source) Bundle(ctx context.Context, commit string) (path string, err error) {
	if s.kind == Dir {
		if _, err := s.git.run(ctx, s.bare, nil, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", s.from, commit); err != nil {
			return "", s.explain(err)
		}
	}
	s.n++
	path = fmt.Sprintf("%s.%d.bundle", strings.TrimSuffix(s.bare, ".git"), s.n)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", s.explain(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := fmt.Fprintf(f, "# v2 git bundle\n%s %s\n\n", commit, BaseRef); err != nil {
		return "", s.explain(err)
	}
	return path, s.explain(s.git.stream(ctx, s.bare, strings.NewReader(commit+"\n"), f,
		"-c", "core.compression=6", "-c", "pack.windowMemory=0", "-c", "core.bigFileThreshold=64m",
		"pack-objects", "--revs", "--stdout", "-q", "--threads=1", "--window=10", "--depth=50",
		"--no-reuse-delta", "--no-reuse-object", "--delta-base-offset"))
}

func (s *Source) problem(format string, a ...any) error {
	return problemf(string(s.kind), filepath.Base(s.from)+" "+format, a...)
}

// explain tells trouble with the repository from trouble of the machine.
func (s *Source) explain(err error) error {
	var ended *gitError
	if !errors.As(err, &ended) {
		return err
	}
	if strings.Contains(ended.words, "No space left on device") {
		return exit.With(exit.Gone, fmt.Errorf("pack %s: %w", s.from, err))
	}
	return s.problem("cannot be read: %v", err)
}
