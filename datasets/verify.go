package datasets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"orchard/datasets/arrowio"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Problem is an object that is not what the manifest says.
type Problem struct {
	Object string // store and key
	What   string
}

func (p Problem) String() string { return p.Object + ": " + p.What }

// Report is what Verify looked at and found.
type Report struct {
	Objects  int64 // manifest, shards, blob list and blobs
	Problems []Problem
}

// Verify reads every object of a version and compares it with its hash, and every
// shard's rows with what the manifest says of them: their number, schema, order and
// statistics. It goes on after a problem and reports all of them. An error means that
// it could not find out. Memory holds a batch for each core, whatever the version's size.
func Verify(ctx context.Context, v *Version) (Report, error) {
	r := Report{Objects: 1} // the manifest was checked when it was opened
	shards := func(yield func(Shard, error) bool) {
		for _, s := range v.manifest.Shards {
			if !yield(s, nil) {
				return
			}
		}
	}
	err := inOrder(ctx, shards, v.verifyShard, func(s Shard, err error) {
		r.Objects++
		if err != nil {
			r.add(v.store, ShardKey(v.loc.Name, s.SHA256), err)
		}
	})
	if err != nil || v.manifest.Blobs.Count == 0 {
		return r, err
	}
	r.Objects++ // the list of blobs
	err = inOrder(ctx, v.BlobList(ctx), func(ctx context.Context, sha string) error { return verifyBlob(ctx, v.store, sha) }, func(sha string, err error) {
		r.Objects++
		if err != nil {
			r.add(v.store, BlobKey(sha), err)
		}
	})
	if exit.Code(err) == exit.Input { // of the list: a blob's own problem does not end it
		r.add(v.store, BlobListKey(v.loc.Name, v.manifest.Blobs.SHA256), err)
		return r, nil
	}
	return r, err
}

// inOrder does several items at once and tells of each in their order. An error that is
// an exit.Input is the item's and told; any other, and one of the items themselves, ends
// it.
func inOrder[T any](ctx context.Context, items iter.Seq2[T, error], do func(context.Context, T) error, told func(T, error)) error {
	type doing struct {
		item T
		done chan error
	}
	workers := runtime.GOMAXPROCS(0)
	pending := make(chan doing, workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(pending)
		room := make(chan struct{}, workers)
		for item, err := range items {
			if err != nil {
				return err
			}
			d := doing{item, make(chan error, 1)}
			if !send(ctx, room, struct{}{}) || !send(ctx, pending, d) {
				return ctx.Err()
			}
			g.Go(func() error {
				err := do(ctx, item)
				<-room
				d.done <- err
				if exit.Code(err) == exit.Input {
					return nil
				}
				return err
			})
		}
		return nil
	})
	for d := range pending {
		if err := <-d.done; err == nil || exit.Code(err) == exit.Input {
			told(d.item, err)
		}
	}
	return g.Wait()
}

func (r *Report) add(store objstore.Store, key string, err error) {
	object := store.String() + "/" + key
	what := err.Error()
	if len(what) > len(object)+2 && what[:len(object)+2] == object+": " {
		what = what[len(object)+2:]
	}
	r.Problems = append(r.Problems, Problem{object, what})
}

func (v *Version) verifyShard(ctx context.Context, s Shard) error {
	o, err := v.shard(ctx, s)
	if err != nil {
		return err
	}
	defer o.Close()
	var c arrowio.Checked
	f, err := arrowio.Open(o, o.size)
	if err == nil {
		c, err = arrowio.Check(f, v.manifest.Schema)
	}
	switch {
	case err != nil:
	case c.Rows != s.Rows:
		err = fmt.Errorf("has %d rows, expected %d", c.Rows, s.Rows)
	case c.First != s.FirstKey || c.Last != s.LastKey:
		err = fmt.Errorf("has the ids %q to %q, expected %q to %q", c.First, c.Last, s.FirstKey, s.LastKey)
	default:
		err = agree(s.Stats, c.Stats)
	}
	return exit.With(exit.Input, err)
}

// agree compares a shard's statistics with those of its rows. A manifest may have fewer.
func agree(said, found map[string]arrowio.Stat) error {
	for _, column := range slices.Sorted(maps.Keys(said)) {
		s, f := said[column], found[column]
		if s.Nulls != f.Nulls || s.Min != nil && !s.SameBounds(f) {
			return fmt.Errorf("column %s has %d nulls and values from %s to %s, its statistics say %d and %s to %s", column, f.Nulls, f.Min, f.Max, s.Nulls, s.Min, s.Max)
		}
	}
	return nil
}

func verifyBlob(ctx context.Context, store objstore.Store, sha string) error {
	b, err := OpenBlob(ctx, store, sha)
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = io.Copy(io.Discard, b)
	return err
}

// BlobList is the sha256 of every blob that the version's rows name, sorted.
func (v *Version) BlobList(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		b := v.manifest.Blobs
		if b.Count == 0 {
			return
		}
		list, err := v.fetch(ctx, BlobListKey(v.loc.Name, b.SHA256), b.SHA256, b.Bytes)
		if err != nil {
			yield("", err)
			return
		}
		defer list.Close()
		lines := bufio.NewScanner(io.NewSectionReader(list, 0, list.size))
		for lines.Scan() {
			if !yield(lines.Text(), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield("", fmt.Errorf("read the list of blobs of %s: %w", v.loc, err))
		}
	}
}
