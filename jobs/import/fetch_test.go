package importer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

// bucket is a store for s3://b/sets that has the files of dir below tasks/.
func bucket(t *testing.T, dir string) (datasets.Opener, *mem.Store) {
	t.Helper()
	store := &mem.Store{}
	for _, name := range []string{"tasks.jsonl", "repo.fi"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			_, err = store.Create(t.Context(), "tasks/"+name, objstore.Bytes(raw))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context, root string) (objstore.Store, error) {
		if root == "s3://b/sets" {
			return store, nil
		}
		return datasets.Stores(ctx, root)
	}, store
}

// Tasks in a bucket become the same dataset as tasks on disk, and say where they were.
func TestTasksInABucket(t *testing.T) {
	t.Parallel()
	dir, _ := set(t, task("a", `,"repo_fast_import":"repo.fi"`))
	c, d := config(dir)
	here, err := Run(t.Context(), c, d)
	if err != nil {
		t.Fatal(err)
	}
	d.Open, _ = bucket(t, dir)
	c.In, c.Out = []string{"s3://b/sets/tasks"}, filepath.Join(dir, "out", "again")
	there, err := Run(t.Context(), c, d)
	if err != nil {
		t.Fatal(err)
	}
	if here.Digest != there.Digest {
		t.Errorf("from disk %s, from the bucket %s", here.Digest, there.Digest)
	}
	_, v := tasks(t, there.URI)
	if uris := strings.Join(v.Manifest().Run.InputURIs, " "); !strings.Contains(uris, "s3://b/sets/tasks/tasks.jsonl") {
		t.Errorf("the manifest says they were at %s", uris)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "orchard-tasks-*", "*", "tasks", "repo.fi"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTroubleWithABucket(t *testing.T) {
	t.Parallel()
	dir, _ := set(t, task("a", `,"repo_fast_import":"repo.fi"`))
	open, store := bucket(t, dir)
	if _, err := store.Create(t.Context(), "one.jsonl", objstore.Bytes("{")); err != nil {
		t.Fatal(err)
	}
	away := func(context.Context, string) (objstore.Store, error) { return nil, objstore.ErrUnavailable }
	for _, c := range []struct {
		in   string
		open datasets.Opener
		code int
		says string
	}{
		{"s3://b/sets/none.jsonl", open, exit.Input, "s3://b/sets/none.jsonl: there is no such object"},
		{"s3://b/sets/one.jsonl", open, exit.Input, "one.jsonl"},
		{"s3://b/sets/tasks/tasks.jsonl", away, exit.Retry, "store unavailable"},
		{"s3://", open, exit.Config, "s3://bucket/prefix/tasks.jsonl"},
		{"s3://key:secret@b/x/y.jsonl", open, exit.Config, "s3://bucket/prefix/tasks.jsonl"},
	} {
		cfg, d := config(dir)
		cfg.In, d.Open = []string{c.in}, c.open
		if _, err := Run(t.Context(), cfg, d); exit.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: code %d: %v", c.in, exit.Code(err), err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	cfg, d := config(dir)
	cfg.In, d.Open = []string{"s3://b/sets/tasks"}, open
	if _, err := Run(stopped, cfg, d); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped import: %v", err)
	}
}
