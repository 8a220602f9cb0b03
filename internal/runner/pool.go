package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/logx"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// pool does units. Its methods are called by several workers at once.
type pool[Out record.Row] struct {
	job    *job
	src    Source[Out]
	ledger ledger[Out]
	tools  Tools
	take   context.Context // ends: take no more units
	work   context.Context // ends: give up running units
	abort  func(error)     // ends take for an error that concerns all units
	ready  func() error    // Source.Ready, once

	needed context.Context // ends: the units at the front have all rows that are needed
	enough context.CancelFunc
	front  *front

	mu     sync.Mutex
	streak int   // units in a row that ended in trouble
	last   error // of the latest of them
}

// run does the units and waits for them. Its error is one that ended the stage early.
func (p *pool[Out]) run(units []Unit) error {
	type numbered struct {
		Unit
		n int
	}
	next := make(chan numbered)
	var workers sync.WaitGroup
	for range min(p.job.cfg.Workers, len(units)) {
		workers.Go(func() {
			for u := range next {
				counts, ended := p.do(u.Unit)
				if ended && p.front.end(u.n, counts) {
					p.enough()
				}
			}
		})
	}
feed:
	for n, u := range units {
		if p.take.Err() != nil || p.needed.Err() != nil { // select picks at random among what is ready
			break
		}
		select {
		case next <- numbered{u, n}:
		case <-p.take.Done():
			break feed
		case <-p.needed.Done():
			break feed
		}
	}
	close(next)
	if p.take.Err() != nil {
		p.job.log.Info().Msg("stopping: waiting for the units that are running")
	}
	workers.Wait()
	if p.take.Err() == nil {
		return nil
	}
	var fatal *fatalError
	if errors.As(context.Cause(p.take), &fatal) {
		return fatal.err
	}
	return stopped(p.take)
}

// fatalError is the cause of an end that a unit brought about.
type fatalError struct{ err error }

func (f *fatalError) Error() string { return f.err.Error() }

// do brings one unit to its end, or leaves it unfinished. ended is false when nobody
// knows yet what comes of it; counts is that of its row.
func (p *pool[Out]) do(u Unit) (counts, ended bool) {
	f, err := p.ledger.load(p.work, u)
	switch {
	case err == nil:
		p.count(f, func(c *UnitCounts) { c.Reused++ })
		return p.src.counts(f), true
	case !errors.Is(err, objstore.ErrNotFound):
		p.fail(u, err)
		return false, false
	}
	if err := p.ready(); err != nil {
		p.abort(err)
		return false, false
	}
	log := p.job.log.With().Str(logx.Unit, u.ID).Str(logx.Task, u.Task).Logger()
	ctx, cancel := context.WithCancel(log.WithContext(p.needed))
	defer cancel()

	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = p.job.deps.Backoff, 30*p.job.deps.Backoff
	evidence := 1
	for try := 1; ; try++ {
		began := p.job.deps.Now()
		tools := p.tools
		tools.Attempt, tools.Last, tools.Seed = try, try > p.job.cfg.MaxRetries, seal.Seed(p.job.cfg.Seed, u.ID)
		row, err := p.src.Do(ctx, u, tools)
		if reason, ok := dropReason(err); err == nil || ok {
			return p.finish(u, finished[Out]{row: row, dropped: reason}, err)
		}
		if ctx.Err() != nil { // a stop, not the unit's trouble
			return false, false
		}
		if code := exit.Code(classify(err)); code == exit.Config || code == exit.Gone {
			p.fail(u, err)
			return false, false
		}
		log.Warn().Err(err).Int("try", try).Msg("could not find out how the unit ends")
		took := p.job.deps.Now().Sub(began)
		evidence, err = p.trouble(u, evidence, row, err, took)
		if err != nil {
			p.fail(u, err)
			return false, false
		}
		if tools.Last {
			p.unfinished(u)
			return false, true
		}
		wait := time.NewTimer(pause.NextBackOff())
		select {
		case <-wait.C:
		case <-p.take.Done():
			wait.Stop()
			return false, false
		case <-p.needed.Done():
			wait.Stop()
			return false, false
		}
		p.job.update(func(r *Result) { r.Units.Retried++ })
	}
}

// finish stores the end of a unit.
func (p *pool[Out]) finish(u Unit, f finished[Out], why error) (counts, ended bool) {
	detail := ""
	if why != nil {
		detail = why.Error()
	}
	reused, err := p.ledger.save(p.work, u, f, detail)
	if err != nil {
		p.fail(u, err)
		return false, false
	}
	if reused { // another process was first: its row counts
		if f, err = p.ledger.load(context.WithoutCancel(p.work), u); err != nil {
			p.fail(u, err)
			return false, false
		}
	}
	p.mu.Lock()
	p.streak = 0
	p.mu.Unlock()
	p.count(f, func(c *UnitCounts) {
		if reused {
			c.Reused++
		} else {
			c.Done++
		}
	})
	return p.src.counts(f), true
}

// trouble stores the evidence of a try.
func (p *pool[Out]) trouble(u Unit, n int, row Out, err error, took time.Duration) (next int, _ error) {
	p.mu.Lock()
	p.last = err
	p.mu.Unlock()
	return p.ledger.blame(p.work, u, n, attempt{
		Unit: u.ID, Task: u.Task, Error: err.Error(), At: p.job.deps.Now().UTC(), DurMS: took.Milliseconds(),
	}, row)
}

// unfinished gives a unit up for this process. When nothing but trouble comes, the
// model server or the sandboxes are away, and going on would only take time.
func (p *pool[Out]) unfinished(u Unit) {
	p.job.update(func(r *Result) { r.Units.Infra++ })
	p.mu.Lock()
	p.streak++
	streak, last := p.streak, p.last
	p.mu.Unlock()
	if limit := 8 + 2*p.job.cfg.Workers; streak >= limit {
		p.abort(exit.Retryf("%d units in a row met trouble that is not theirs; the latest, unit %s: %w", streak, u.ID, last))
	}
}

// fail ends the stage for an error that is not the unit's alone.
func (p *pool[Out]) fail(u Unit, err error) {
	if p.work.Err() != nil {
		return // it is the stop that made the error
	}
	p.abort(classify(fmt.Errorf("unit %s (task %s): %w", u.ID, u.Task, err)))
}

// count adds a finished unit to the live numbers.
func (p *pool[Out]) count(f finished[Out], units func(*UnitCounts)) {
	p.job.update(func(r *Result) {
		units(r.Units)
		tally(r, p.src, f)
	})
}

// tally adds a finished unit's row, or its reason, to the numbers.
func tally[Out record.Row](r *Result, src Source[Out], f finished[Out]) {
	if f.dropped != "" {
		r.Dropped[f.dropped]++
		return
	}
	r.RowsOut++
	if src.Outcome != nil {
		r.Outcomes[src.Outcome(f.row)]++
	}
	if src.Usage != nil {
		r.Usage = r.Usage.Add(src.Usage(f.row))
	}
}
