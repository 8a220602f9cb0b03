package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/whole"
)

// rangesAtOnce is how many parts of one large object are under way.
const rangesAtOnce = 4

// cut splits the URI of an object or a folder in a bucket into that of its parent and its name.
func cut(uri string) (parent, name string) {
	path := strings.TrimRight(strings.TrimPrefix(uri, "s3://"), "/")
	slash := strings.LastIndexByte(path, '/')
	return "s3://" + path[:max(slash, 0)], path[slash+1:]
}

// fetch brings an object, or all below a folder, from a bucket into dir, under its name.
func fetch(ctx context.Context, uri, dir string, open datasets.Opener) error {
	parent, name := cut(uri)
	if err := datasets.CheckRoot(parent); err != nil || name == "" {
		return exit.Configf("--in %s: must look like s3://bucket/prefix/tasks.jsonl, or such a folder", uri)
	}
	store, err := open(ctx, parent)
	if err != nil {
		return fmt.Errorf("--in %s: %w", uri, err)
	}
	err = fetchObject(ctx, store, name, dir)
	if !errors.Is(err, objstore.ErrNotFound) {
		return named(uri, err)
	}
	found := false
	for info, err := range store.List(ctx, name+"/") {
		if err == nil {
			found = true
			err = fetchObject(ctx, store, info.Key, dir)
		}
		if err != nil {
			return named(uri, err)
		}
	}
	if !found {
		return exit.Inputf("--in %s: there is no such object, and none below it", uri)
	}
	return nil
}

func named(uri string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--in %s: %w", uri, err)
}

// fetchObject writes an object's bytes to its key below dir.
func fetchObject(ctx context.Context, store objstore.Store, key, dir string) error {
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return exit.Inputf("%s/%s: is no name for a file", store, key)
	}
	path := filepath.Join(dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return whole.Write(path, 0o644, func(f *os.File) error {
		_, err := objstore.Fetch(ctx, store, key, f, rangesAtOnce)
		return err
	})
}
