package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"golang.org/x/sync/errgroup"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// packer turns batches into stored shards beside the goroutine that makes the rows:
//
//	batches -> compress, hash, to a temporary file -> upload
//
// Which rows are in which shard, and so every byte, follows from the batches alone.
type packer[R record.Row] struct {
	store objstore.Store
	name  string
	full  int64 // size at which a shard ends

	batches chan *arrowio.Batch
	group   *errgroup.Group
	ctx     context.Context // ends with the first error
	cancel  context.CancelFunc
	shards  []Shard // once wait has returned nil
}

// filling is a shard that is being filled, full or on its way to the store.
type filling[R record.Row] struct {
	*arrowio.Writer[R]
	tmp  *spool
	hash hash.Hash
	Shard
}

// newPacker starts the two goroutines; wait or stop ends them. They do not end with
// ctx, as that may be the context of a single Write.
func newPacker[R record.Row](ctx context.Context, store objstore.Store, name string, full int64) *packer[R] {
	p := &packer[R]{store: store, name: name, full: full, batches: make(chan *arrowio.Batch, 1)}
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.group, p.ctx = errgroup.WithContext(ctx)
	uploads := make(chan *filling[R])
	p.group.Go(func() error { return p.pack(uploads) })
	p.group.Go(func() error { return p.upload(uploads) })
	return p
}

// add hands a batch over; an error of an earlier one may come up.
func (p *packer[R]) add(ctx context.Context, b *arrowio.Batch) error {
	select {
	case p.batches <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return p.stop()
	}
}

// wait ends the last shard and returns once all are stored.
func (p *packer[R]) wait(ctx context.Context) ([]Shard, error) {
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	close(p.batches)
	err := p.group.Wait()
	p.cancel()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return p.shards, err
}

// stop ends the goroutines wherever they are, and returns why they had not gone on.
func (p *packer[R]) stop() error {
	p.cancel()
	return p.group.Wait()
}

func (p *packer[R]) pack(uploads chan<- *filling[R]) (err error) {
	defer close(uploads)
	var s *filling[R]
	defer func() {
		if s != nil {
			s.tmp.Close()
		}
	}()
	roll := func() error {
		if err := s.end(); err != nil {
			return fmt.Errorf("dataset %s: %w", p.name, err)
		}
		if !send(p.ctx, uploads, s) {
			return p.ctx.Err()
		}
		s = nil
		return nil
	}
	first := true
	for {
		var b *arrowio.Batch
		select {
		case b = <-p.batches: // nil after the last
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
		if s == nil && (b != nil || first) { // without rows, the schema is still worth a file
			if s, err = startShard[R](); err != nil {
				return err
			}
		}
		first = false
		if b == nil {
			if s != nil {
				return roll()
			}
			return nil
		}
		if err := s.add(b); err != nil {
			return fmt.Errorf("dataset %s: %w", p.name, err)
		}
		if s.Size() >= p.full {
			if err := roll(); err != nil {
				return err
			}
		}
	}
}

func startShard[R record.Row]() (*filling[R], error) {
	tmp, err := newSpool()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	file, err := arrowio.NewWriter[R](io.MultiWriter(tmp, h))
	if err != nil {
		tmp.Close()
		return nil, err
	}
	return &filling[R]{Writer: file, tmp: tmp, hash: h}, nil
}

func (s *filling[R]) add(b *arrowio.Batch) error {
	if s.Shard.Rows == 0 {
		s.FirstKey = b.First
	}
	s.Shard.Rows += b.Rows
	s.LastKey = b.Last
	return s.Write(b)
}

func (s *filling[R]) end() error {
	if err := s.Close(); err != nil {
		return err
	}
	s.SHA256, s.Bytes = hex.EncodeToString(s.hash.Sum(nil)), s.tmp.Size()
	if stats := s.Writer.Stats(); len(stats) > 0 {
		s.Shard.Stats = stats
	}
	return nil
}

func (p *packer[R]) upload(shards <-chan *filling[R]) error {
	for s := range shards {
		err := create(p.ctx, p.store, p.name, ShardKey(p.name, s.SHA256), s.tmp)
		s.tmp.Close()
		if err != nil {
			return err
		}
		p.shards = append(p.shards, s.Shard)
	}
	return nil
}

// create stores an object whose key is its content's hash.
func create(ctx context.Context, store objstore.Store, name, key string, body objstore.Body) error {
	_, err := store.Create(ctx, key, body)
	if errors.Is(err, objstore.ErrExists) {
		info, err := store.Stat(ctx, key)
		if err == nil && info.Size != body.Size() {
			err = exit.Inputf("is damaged: has %d bytes, expected %d; delete it and run the stage again", info.Size, body.Size())
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", store, key, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("write dataset %s: %w", name, err)
	}
	return nil
}
