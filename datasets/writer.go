package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// DefaultShardBytes is when a shard is full: its size as stored, give or take a batch.
const DefaultShardBytes = 128 << 20

// DefaultSortBytes is how much memory rows take that are being sorted.
const DefaultSortBytes = 64 << 20

// WriterOptions tune a Writer; the zero value is what a stage wants when its rows come
// sorted.
type WriterOptions struct {
	// Sort takes rows in any order. What does not fit into SortBytes goes to temporary
	// files. The version is the same as if the rows had come sorted.
	Sort bool
	// SortBytes is about how many bytes of rows are kept in memory to be sorted; 0 is
	// DefaultSortBytes.
	SortBytes int64
	// ShardBytes is when a shard is full; 0 is DefaultShardBytes.
	ShardBytes int64
}

// Writer makes a version. Full shards go to the store as they fill; nothing of them is
// a version before Commit. Memory holds a few batches, and the names of all blobs. Not
// safe for concurrent use. Close it in every case.
type Writer[R record.Row] struct {
	store objstore.Store
	name  string
	opts  WriterOptions

	sorter *sorter[R] // nil when rows come sorted
	last   string
	rows   int64
	blobs  map[[sha256.Size]byte]struct{}
	batch  *arrowio.Batcher[R]
	packer *packer[R] // from the first batch on
	err    error
	made   string // digest of what was written
}

// NewWriter starts a version of the dataset called name.
func NewWriter[R record.Row](store objstore.Store, name string, opts WriterOptions) (*Writer[R], error) {
	if err := CheckName(name); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	if opts.ShardBytes <= 0 {
		opts.ShardBytes = DefaultShardBytes
	}
	if opts.SortBytes <= 0 {
		opts.SortBytes = DefaultSortBytes
	}
	w := &Writer[R]{store: store, name: name, opts: opts, blobs: map[[sha256.Size]byte]struct{}{}, batch: arrowio.NewBatcher[R]()}
	if opts.Sort {
		w.sorter = &sorter[R]{name: name, budget: opts.SortBytes}
	}
	return w, nil
}

// Write adds a row. Rows come sorted by id unless the writer sorts; two of one id are
// an exit.Input, of a writer that sorts when it commits. The error may be that of a row
// before. After an error the writer stays broken.
func (w *Writer[R]) Write(ctx context.Context, row R) error {
	if w.err != nil {
		return w.err
	}
	if w.err = ctx.Err(); w.err == nil {
		if w.sorter != nil {
			w.err = w.sorter.add(row)
		} else {
			w.err = w.write(ctx, row)
		}
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
	full, err := w.batch.Add(row)
	if err != nil {
		return exit.Inputf("dataset %s: row %q: %w", w.name, key, err)
	}
	w.last = key
	w.rows++
	for _, sha := range arrowio.Blobs(row) {
		if !digestPattern.MatchString(sha) {
			return fmt.Errorf("write dataset %s: row %q: %q in a row is no blob", w.name, key, sha)
		}
		var b [sha256.Size]byte
		hex.Decode(b[:], []byte(sha))
		w.blobs[b] = struct{}{}
	}
	if full {
		return w.pack(ctx)
	}
	return nil
}

// pack hands the batch to the packer.
func (w *Writer[R]) pack(ctx context.Context) error {
	if w.packer == nil {
		w.packer = newPacker[R](ctx, w.store, w.name, w.opts.ShardBytes)
	}
	b := w.batch.Take()
	if b == nil {
		return nil
	}
	return w.packer.add(ctx, b)
}

// Close frees what an unfinished writer holds. What it stored stays and is found again
// by whoever repeats the work.
func (w *Writer[R]) Close() error {
	w.err = errors.Join(w.err, errors.New("writer is closed"))
	if w.packer != nil {
		w.packer.stop()
		w.packer = nil
	}
	if w.sorter != nil {
		w.sorter.close()
	}
	return nil
}

// Written is the digest of what this writer wrote, after Commit; also when Commit
// adopted another version.
func (w *Writer[R]) Written() string { return w.made }

// finish writes what is left and returns the whole content of the version.
func (w *Writer[R]) finish(ctx context.Context, c *Content) error {
	if w.err != nil {
		return w.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.sorter != nil {
		for row, err := range w.sorter.all() {
			if err == nil {
				err = w.write(ctx, row)
			}
			if err != nil {
				return err
			}
		}
		w.sorter.close()
	}
	if err := w.pack(ctx); err != nil {
		return err
	}
	shards, err := w.packer.wait(ctx)
	if err != nil {
		return err
	}
	c.Schema, c.Rows, c.Shards = arrowio.SchemaOf[R](), w.rows, shards
	for _, s := range shards {
		c.Bytes += s.Bytes
	}
	if err := w.finishBlobs(ctx, c); err != nil {
		return err
	}
	return w.check(ctx, shards)
}

// check is an error when a shard is not there any more. Until a manifest names it, an old
// one that this writer only found may be collected as garbage.
func (w *Writer[R]) check(ctx context.Context, shards []Shard) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, s := range shards {
		g.Go(func() error {
			_, err := w.store.Stat(ctx, ShardKey(w.name, s.SHA256))
			if errors.Is(err, objstore.ErrNotFound) {
				return exit.Retryf("write dataset %s: a shard was collected as garbage before the version was complete; run the stage again: %w", w.name, err)
			}
			if err != nil {
				return fmt.Errorf("write dataset %s: %w", w.name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// finishBlobs stores the list of blobs, once all of them are known to be there.
func (w *Writer[R]) finishBlobs(ctx context.Context, c *Content) error {
	if len(w.blobs) == 0 {
		return nil
	}
	shas := slices.SortedFunc(maps.Keys(w.blobs), func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	list := make([]byte, 0, 65*len(shas))
	for _, sha := range shas {
		list = append(hex.AppendEncode(list, sha[:]), '\n')
		g.Go(func() error {
			if _, err := w.store.Stat(gctx, BlobKey(hex.EncodeToString(sha[:]))); err != nil {
				return fmt.Errorf("write dataset %s: blob of a row: %w", w.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.Blobs = BlobList{Count: int64(len(shas)), SHA256: seal.Bytes(list), Bytes: int64(len(list))}
	return create(ctx, w.store, w.name, BlobListKey(w.name, c.Blobs.SHA256), objstore.Bytes(list))
}
