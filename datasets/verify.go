package datasets

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

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

// Verify reads every object of a version and compares it with its hash, counts the
// rows of every shard and compares its schema. It goes on after a problem and reports
// all of them. An error means that it could not find out.
func Verify(ctx context.Context, v *Version) (Report, error) {
	r := Report{Objects: 1} // the manifest was checked when it was opened
	for _, s := range v.manifest.Shards {
		r.Objects++
		err := v.verifyShard(ctx, s)
		if exit.Code(err) == exit.Input {
			r.add(v.store, shardKey(v.loc.Name, s.SHA256), err)
		} else if err != nil {
			return r, err
		}
	}
	return r, v.verifyBlobs(ctx, &r)
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
	file, err := v.shard(ctx, s)
	if err != nil {
		return err
	}
	rows, err := arrowio.Check(file, v.manifest.Schema)
	if err == nil && rows != s.Rows {
		err = fmt.Errorf("has %d rows, expected %d", rows, s.Rows)
	}
	return exit.With(exit.Input, err)
}

func (v *Version) verifyBlobs(ctx context.Context, r *Report) error {
	shas, err := v.BlobNames(ctx)
	if len(shas) > 0 || err != nil {
		r.Objects++ // the list
	}
	if exit.Code(err) == exit.Input {
		r.add(v.store, blobListKey(v.loc.Name, v.manifest.Blobs.SHA256), err)
		return nil
	}
	if err != nil {
		return err
	}
	found := make([]error, len(shas))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, sha := range shas {
		g.Go(func() error {
			err := verifyBlob(gctx, v.store, sha)
			if exit.Code(err) == exit.Input {
				found[i], err = err, nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, err := range found {
		r.Objects++
		if err != nil {
			r.add(v.store, blobKey(shas[i]), err)
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

// BlobNames is the sha256 of every blob that the version's rows name, sorted.
func (v *Version) BlobNames(ctx context.Context) ([]string, error) {
	b := v.manifest.Blobs
	if b.Count == 0 {
		return nil, nil
	}
	list, err := v.object(ctx, blobListKey(v.loc.Name, b.SHA256), b.SHA256, b.Bytes)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(list)), nil
}
