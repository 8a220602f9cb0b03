package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// DefaultShardBytes is when a shard is full: its size as stored, give or take a batch.
const DefaultShardBytes = 128 << 20

// WriterOptions tune a Writer; the zero value is what a stage wants when its rows come
// sorted.
type WriterOptions struct {
	// Sort takes rows in any order. They are kept in memory until Commit.
	Sort bool
	// ShardBytes is when a shard is full; 0 is DefaultShardBytes.
	ShardBytes int64
}

// Writer makes a version. Full shards go to the store as they fill; nothing of them is
// a version before Commit. Not safe for concurrent use. Close it in every case.
type Writer[R record.Row] struct {
	store objstore.Store
	name  string
	opts  WriterOptions

	unsorted []R
	last     string
	rows     int64
	blobs    map[string]struct{}
	shards   []Shard
	open     *shardWriter[R]
	err      error
}

// shardWriter is a shard that is being filled.
type shardWriter[R record.Row] struct {
	*arrowio.Writer[R]
	tmp   *spool
	hash  hash.Hash
	first string
}

// NewWriter starts a version of the dataset called name.
func NewWriter[R record.Row](store objstore.Store, name string, opts WriterOptions) (*Writer[R], error) {
	if err := CheckName(name); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	if opts.ShardBytes <= 0 {
		opts.ShardBytes = DefaultShardBytes
	}
	return &Writer[R]{store: store, name: name, opts: opts, blobs: map[string]struct{}{}}, nil
}

// Write adds a row. Rows come sorted by id unless the writer sorts; two of one id are
// an exit.Input. After an error the writer stays broken.
func (w *Writer[R]) Write(ctx context.Context, row R) error {
	if w.err == nil && w.opts.Sort {
		w.unsorted = append(w.unsorted, row)
		return nil
	}
	if w.err == nil {
		w.err = w.write(ctx, row)
	}
	return w.err
}

func (w *Writer[R]) write(ctx context.Context, row R) error {
	key := row.Key()
	switch {
	case key == "":
		return exit.Inputf("dataset %s: row %d has no id", w.name, w.rows)
	case key == w.last:
		return exit.Inputf("dataset %s: two rows have the id %q", w.name, key)
	case key < w.last:
		return fmt.Errorf("dataset %s: row %q comes after %q; rows must be sorted by id", w.name, key, w.last)
	}
	if w.open == nil {
		if err := w.start(key); err != nil {
			return err
		}
	}
	if err := w.open.Write(row); err != nil {
		return exit.Inputf("dataset %s: row %q: %w", w.name, key, err)
	}
	w.last = key
	w.rows++
	for _, sha := range arrowio.Blobs(row) {
		w.blobs[sha] = struct{}{}
	}
	if w.open.Size() >= w.opts.ShardBytes {
		return w.roll(ctx)
	}
	return nil
}

func (w *Writer[R]) start(first string) error {
	tmp, err := newSpool()
	if err != nil {
		return err
	}
	h := sha256.New()
	file, err := arrowio.NewWriter[R](io.MultiWriter(tmp, h))
	if err != nil {
		tmp.Close()
		return err
	}
	w.open = &shardWriter[R]{file, tmp, h, first}
	return nil
}

// roll ends the open shard and stores it.
func (w *Writer[R]) roll(ctx context.Context) error {
	s := w.open
	w.open = nil
	defer s.tmp.Close()
	if err := s.Close(); err != nil {
		return fmt.Errorf("dataset %s: %w", w.name, err)
	}
	shard := Shard{SHA256: hex.EncodeToString(s.hash.Sum(nil)), Bytes: s.tmp.Size(), Rows: s.Rows(), FirstKey: s.first, LastKey: w.last}
	if err := w.create(ctx, shardKey(w.name, shard.SHA256), s.tmp); err != nil {
		return err
	}
	w.shards = append(w.shards, shard)
	return nil
}

// create stores an object whose key is its content's hash.
func (w *Writer[R]) create(ctx context.Context, key string, body objstore.Body) error {
	_, err := w.store.Create(ctx, key, body)
	if errors.Is(err, objstore.ErrExists) {
		info, err := w.store.Stat(ctx, key)
		if err == nil && info.Size != body.Size() {
			err = exit.Inputf("is damaged: has %d bytes, expected %d; delete it and run the stage again", info.Size, body.Size())
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", w.store, key, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("write dataset %s: %w", w.name, err)
	}
	return nil
}

// Close frees what an unfinished writer holds. What it stored stays and is found again
// by whoever repeats the work.
func (w *Writer[R]) Close() error {
	w.err = errors.Join(w.err, errors.New("writer is closed"))
	if w.open == nil {
		return nil
	}
	tmp := w.open.tmp
	w.open = nil
	return tmp.Close()
}

// finish writes what is left and returns the whole content of the version.
func (w *Writer[R]) finish(ctx context.Context, c *Content) error {
	if w.err != nil {
		return w.err
	}
	slices.SortStableFunc(w.unsorted, func(a, b R) int { return strings.Compare(a.Key(), b.Key()) })
	for _, row := range w.unsorted {
		if err := w.write(ctx, row); err != nil {
			return err
		}
	}
	w.unsorted = nil
	if w.open == nil && len(w.shards) == 0 { // no rows: the schema is still worth a file
		if err := w.start(""); err != nil {
			return err
		}
	}
	if w.open != nil {
		if err := w.roll(ctx); err != nil {
			return err
		}
	}
	c.Schema, c.Rows, c.Shards = arrowio.SchemaOf[R](), w.rows, w.shards
	for _, s := range w.shards {
		c.Bytes += s.Bytes
	}
	return w.finishBlobs(ctx, c)
}

// finishBlobs stores the list of blobs, once all of them are known to be there.
func (w *Writer[R]) finishBlobs(ctx context.Context, c *Content) error {
	shas := slices.Sorted(maps.Keys(w.blobs))
	if len(shas) == 0 {
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, sha := range shas {
		g.Go(func() error {
			if !digestPattern.MatchString(sha) {
				return fmt.Errorf("write dataset %s: %q in a row is no blob", w.name, sha)
			}
			if _, err := w.store.Stat(gctx, blobKey(sha)); err != nil {
				return fmt.Errorf("write dataset %s: blob of a row: %w", w.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	list := []byte(strings.Join(shas, "\n") + "\n")
	c.Blobs = BlobList{Count: int64(len(shas)), SHA256: seal.Bytes(list), Bytes: int64(len(list))}
	return w.create(ctx, blobListKey(w.name, c.Blobs.SHA256), objstore.Bytes(list))
}
