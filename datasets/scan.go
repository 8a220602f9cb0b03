package datasets

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"orchard/datasets/arrowio"
	"orchard/internal/exit"
)

// fetchAhead is how many shards are fetched before they are needed.
const fetchAhead = 2

// scan reads the shards of a version on several cores:
//
//	fetch (ahead, hashes) -> dispatch (batch by batch, within the budget) -> decode (workers) -> the caller
//
// The caller gets the batches in the order in which they were dispatched, or as they are
// ready. All goroutines end, and all files are closed, before run returns.
type scan[T any] struct {
	v      *Version
	o      options
	shards []Shard
	decode func(f *arrowio.File, q arrowio.Query) (*arrowio.Decoder[T], error)

	budget *semaphore.Weighted
	jobs   chan *batchJob[T]
	ready  chan *batchJob[T] // to the caller; a job in it may still be in work

	mu   sync.Mutex
	open []*object
}

// batchJob is one batch on its way.
type batchJob[T any] struct {
	shard  *openShard[T]
	batch  int
	weight int64
	done   chan struct{} // closed when rows and err are there
	rows   []T
	err    error
}

// openShard is a fetched shard; it is closed with its last batch.
type openShard[T any] struct {
	Shard
	file    *object
	decoder *arrowio.Decoder[T]
	left    atomic.Int64
}

// fetching is a shard on its way.
type fetching struct {
	shard Shard
	done  chan struct{}
	file  *object
	err   error
}

// run hands each batch's rows to yield until that answers false.
func (s *scan[T]) run(ctx context.Context, yield func(rows []T, err error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() {
		cancel()
		all.Wait()
		for _, f := range s.open {
			f.Close()
		}
	}()
	s.budget = semaphore.NewWeighted(s.o.inFlight)
	s.jobs = make(chan *batchJob[T])
	s.ready = make(chan *batchJob[T], 2*s.o.workers)
	fetched := make(chan *fetching, fetchAhead)
	var senders sync.WaitGroup // to ready
	all.Go(func() { s.fetch(ctx, &all, fetched) })
	senders.Add(1)
	all.Go(func() {
		defer senders.Done()
		defer close(s.jobs)
		s.dispatch(ctx, fetched)
	})
	for range s.o.workers {
		senders.Add(1)
		all.Go(func() { defer senders.Done(); s.work(ctx) })
	}
	all.Go(func() { senders.Wait(); close(s.ready) })
	for {
		j, more, err := s.next(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		if !more || !yield(j.rows, j.err) || j.err != nil {
			return
		}
		j.rows = nil
		s.budget.Release(j.weight)
	}
}

// next is a batch that is done; more is false after the last.
func (s *scan[T]) next(ctx context.Context) (j *batchJob[T], more bool, err error) {
	select {
	case j, more = <-s.ready:
		if !more {
			return nil, false, ctx.Err()
		}
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	select {
	case <-j.done:
		return j, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// fetch starts fetching each shard, a few ahead of the one that is decoded.
func (s *scan[T]) fetch(ctx context.Context, all *sync.WaitGroup, out chan<- *fetching) {
	defer close(out)
	for _, shard := range s.shards {
		f := &fetching{shard: shard, done: make(chan struct{})}
		select {
		case out <- f: // waits while enough are ahead
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			defer close(f.done)
			f.file, f.err = s.v.shard(ctx, shard)
			if f.file != nil {
				s.mu.Lock()
				s.open = append(s.open, f.file)
				s.mu.Unlock()
			}
		})
	}
}

// dispatch hands out the batches of the shards in order.
func (s *scan[T]) dispatch(ctx context.Context, in <-chan *fetching) {
	for f := range in {
		select {
		case <-f.done:
		case <-ctx.Done():
			return
		}
		if err := s.dispatchShard(ctx, f); err != nil {
			j := &batchJob[T]{err: err, done: make(chan struct{})}
			close(j.done)
			send(ctx, s.ready, j)
			return
		}
	}
}

func (s *scan[T]) dispatchShard(ctx context.Context, f *fetching) error {
	if f.err != nil {
		return f.err
	}
	o := &openShard[T]{Shard: f.shard, file: f.file}
	file, err := arrowio.Open(f.file, f.file.size)
	if err == nil {
		o.decoder, err = s.decode(file, s.o.query)
	}
	if err != nil {
		return s.wrong(f.shard, err)
	}
	n := o.decoder.Batches()
	o.left.Store(int64(n))
	for i := range n {
		weight, err := o.decoder.Weight(i)
		if err != nil {
			return s.wrong(f.shard, err)
		}
		j := &batchJob[T]{shard: o, batch: i, weight: min(weight, s.o.inFlight), done: make(chan struct{})}
		if s.budget.Acquire(ctx, j.weight) != nil {
			return nil // the caller has gone
		}
		if !s.o.unordered && !send(ctx, s.ready, j) || !send(ctx, s.jobs, j) {
			return nil
		}
	}
	return nil
}

// work decodes batches.
func (s *scan[T]) work(ctx context.Context) {
	for j := range s.jobs {
		if j.rows, j.err = j.shard.decoder.Rows(j.batch); j.err != nil {
			j.err = s.wrong(j.shard.Shard, j.err)
		}
		if j.shard.left.Add(-1) == 0 {
			j.shard.file.Close()
		}
		close(j.done)
		if s.o.unordered && !send(ctx, s.ready, j) {
			return
		}
	}
}

func (s *scan[T]) wrong(shard Shard, err error) error {
	return exit.Inputf("%s: shard %s: %w", s.v.loc, shard.SHA256, err)
}

func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}
