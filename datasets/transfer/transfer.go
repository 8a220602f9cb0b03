// Package transfer copies versions from one store to another: blobs, shards and the list
// of blobs first, then the card and the manifest, then the claim of its key and refs/latest, all
// created if absent. So a copy that is killed leaves nothing that a reader could take for
// a version, and done again it copies only what is missing.
//
// Every object is compared with its hash on its way, before the store that gets it makes
// it visible.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// DefaultWorkers is how many objects are copied at once when nothing else is said.
const DefaultWorkers = 8

// Options tune a copy; the zero value is what most want.
type Options struct {
	Name    string // of the dataset in the other store; "" keeps it
	Workers int
	Files   bool // also the files that a stage wrote beside the version
	// Check hashes what is there already, instead of comparing its size.
	Check bool
	// Progress is called after each object, one call at a time; may be nil.
	Progress func(Progress)
}

// Progress is how far a copy is. Objects that are there count as done.
type Progress struct {
	Objects, Total int64
	Bytes          int64 // copied; there is no total, as nobody has the size of blobs
}

// Report is what a copy did.
type Report struct {
	Objects int64  // of the version, those in the other store included
	Copied  int64  // of Objects
	Bytes   int64  // copied
	Key     string // the digest that the key's result is in the other store
}

// Copy makes v a version of the other store as well.
func Copy(ctx context.Context, v *datasets.Version, to objstore.Store, o Options) (Report, error) {
	if o.Name == "" {
		o.Name = v.Location().Name
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if err := datasets.CheckName(o.Name); err != nil {
		return Report{}, exit.With(exit.Config, err)
	}
	c := &copier{v: v, from: v.Store(), to: to, o: o}
	c.progress.Total = c.count()
	if err := c.data(ctx); err != nil {
		return c.report(""), err
	}
	if err := c.manifest(ctx); err != nil {
		return c.report(""), err
	}
	key, err := c.publish(ctx)
	return c.report(key), err
}

// copier is one call of Copy.
type copier struct {
	v        *datasets.Version
	from, to objstore.Store
	o        Options

	mu       sync.Mutex
	progress Progress
	found    []string // keys of the other store that were there before
	copied   atomic.Int64
}

func (c *copier) count() int64 {
	m := c.v.Manifest()
	n := int64(len(m.Shards)) + m.Blobs.Count + 1
	if m.Blobs.Count > 0 {
		n++
	}
	return n
}

func (c *copier) report(key string) Report {
	return Report{c.progress.Objects, c.copied.Load(), c.progress.Bytes, key}
}

// place is where an object of a dataset lies, as the functions of datasets say.
type place func(name, id string) string

func (c *copier) here(at place, id string) string  { return at(c.v.Location().Name, id) }
func (c *copier) there(at place, id string) string { return at(c.o.Name, id) }

// part copies what is called by the hash of its bytes.
func (c *copier) part(ctx context.Context, at place, sha string, size int64) error {
	return c.object(ctx, c.here(at, sha), c.there(at, sha), size, hashCheck(sha))
}

// data copies everything that the manifest names.
func (c *copier) data(ctx context.Context) error {
	m := c.v.Manifest()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.o.Workers)
	for sha, err := range c.v.BlobList(gctx) {
		if err != nil {
			return errors.Join(err, ignoreCancel(g.Wait()))
		}
		g.Go(func() error { return c.object(gctx, datasets.BlobKey(sha), datasets.BlobKey(sha), -1, blobCheck(sha)) })
	}
	if err := g.Wait(); err != nil { // blobs before what names them
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(c.o.Workers)
	if b := m.Blobs; b.Count > 0 {
		g.Go(func() error { return c.part(gctx, datasets.BlobListKey, b.SHA256, b.Bytes) })
	}
	for _, s := range m.Shards {
		g.Go(func() error { return c.part(gctx, datasets.ShardKey, s.SHA256, s.Bytes) })
	}
	return g.Wait()
}

func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// manifest makes the copy a version. The same one may be there, with other times.
func (c *copier) manifest(ctx context.Context) error {
	if err := c.extra(ctx, datasets.CardKey, c.v.Digest()); err != nil { // so that a version has one
		return err
	}
	if err := c.still(ctx); err != nil {
		return err
	}
	raw := c.v.RawManifest()
	key := c.there(datasets.ManifestKey, c.v.Digest())
	_, err := c.to.Create(ctx, key, objstore.Bytes(raw))
	switch {
	case errors.Is(err, objstore.ErrExists):
		c.done(0)
	case err != nil:
		return fmt.Errorf("copy to %s/%s: %w", c.to, key, err)
	default:
		c.copied.Add(1)
		c.done(int64(len(raw)))
	}
	if c.o.Files {
		return c.files(ctx)
	}
	return nil
}

// publish claims the key, if the version has it where it comes from, and makes it the
// newest unless there is a newer one.
func (c *copier) publish(ctx context.Context) (owner string, err error) {
	key := c.v.Manifest().Key
	mine, ok, err := datasets.FindKey(ctx, c.from, c.v.Location().Name, key)
	if err != nil {
		return "", err
	}
	if ok && mine == c.v.Digest() {
		if owner, err = datasets.Claim(ctx, c.to, c.o.Name, key, c.v.Digest()); err != nil {
			return "", fmt.Errorf("copy to %s: %w", c.to, err)
		}
	}
	copied, err := datasets.OpenIn(ctx, c.to, c.o.Name, c.v.Digest())
	if err != nil {
		return "", err
	}
	return owner, datasets.Adopt(ctx, copied)
}

// done counts an object.
func (c *copier) done(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress.Objects++
	c.progress.Total = max(c.progress.Total, c.progress.Objects)
	c.progress.Bytes += bytes
	if c.o.Progress != nil {
		c.o.Progress(c.progress)
	}
}
