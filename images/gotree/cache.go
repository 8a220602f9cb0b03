package gotree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"orchard/images/image"
	"orchard/internal/warmgo"
)

// Env is what the go command runs with in the image, besides PATH and HOME: it finds its
// cache at cache, asks nobody for anything, and needs no C compiler.
func Env(cache string) []string {
	return []string{"GOCACHE=" + cache, "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "GOENV=off", "GOTELEMETRY=off", "CGO_ENABLED=0"}
}

// never is when an entry of the cache was last used: far away, so that a go command neither
// renews the date, which would copy the entry into each container, nor throws it away.
var never = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Cache is a build cache with the standard library as files that lie below path at in the image.
// It is built below folder, once for each version of Go.
func (t Tree) Cache(ctx context.Context, folder, at string) ([]image.File, error) {
	dir, err := filepath.Abs(filepath.Join(folder, t.Version))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		if err := t.warm(ctx, dir); err != nil {
			return nil, fmt.Errorf("build the standard library of %s: %w", t.Version, err)
		}
	}
	// Whoever runs in the container writes to it.
	files := []image.File{image.Dir(at, 0o777)}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f := image.File{Path: filepath.Join(at, rel), Mode: 0o666, Source: path, Time: never}
		if d.IsDir() {
			f = image.Dir(f.Path, 0o777)
		} else if d.Name() == "trim.txt" {
			return nil // when this machine last looked for old entries
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// warm fills a cache: a test that imports every public package of the standard library
// compiles and vets all of them, as tests do, and a program needs what a test does not.
func (t Tree) warm(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), ".warm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	cache := filepath.Join(scratch, "cache")
	list, err := t.run(ctx, scratch, cache, "list", "std")
	if err != nil {
		return err
	}
	err = errors.Join(warmgo.Write(scratch, list), os.WriteFile(filepath.Join(scratch, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"test", "-json", "-count=1", "."}, {"build", "-o", os.DevNull, "."}, {"build", "std"}} {
		if _, err := t.run(ctx, scratch, cache, args...); err != nil {
			return err
		}
	}
	return os.Rename(cache, dir)
}

// run runs one go command with the settings of the image.
func (t Tree) run(ctx context.Context, dir, cache string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(t.Root, "bin", "go"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(Env(cache), "PATH="+filepath.Join(t.Root, "bin"), "HOME="+dir)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()+out.String()))
	}
	return out.String(), nil
}
