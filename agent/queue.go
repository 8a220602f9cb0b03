package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"syscall"
	"time"

	"orchard/agent/wire"
)

// table is every job that this sandbox has run and can still tell about, and the
// queue. Safe for concurrent use.
type table struct {
	start func(*job) // runs a job to its end, in its own goroutine
	spool *spoolDir
	now   func() time.Time

	mu     sync.Mutex
	byID   map[string]*job
	order  []*job // oldest first
	keys   map[string]*job
	dedup  map[string]*job // by key and command: the newest
	queue  []*job
	busy   bool // a job of the queue runs
	closed bool
	gone   names // of dropped jobs
	memory int64 // of ended jobs, in bytes
	disk   int64
}

func newTable(spool *spoolDir, start func(*job)) *table {
	return &table{
		start: start, spool: spool, now: time.Now,
		byID: map[string]*job{}, keys: map[string]*job{}, dedup: map[string]*job{},
		gone: names{has: map[string]bool{}},
	}
}

// submit returns the job of r, its output held until release: a new one that is
// queued or started, or an earlier one that r is a repeat of.
func (t *table) submit(ctx context.Context, r *wire.ExecRequest) (j *job, attached bool, err error) {
	print, err := fingerprint(r)
	if err != nil {
		return nil, false, err
	}
	if r.DedupKey != "" {
		t.awaitDelivery(ctx, dedupName(r.DedupKey, print))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if j, err := t.earlier(r, print); err != nil {
		return nil, false, err
	} else if j != nil {
		j.holds++
		return j, true, nil
	}
	if t.closed {
		return nil, false, conflict("the sandbox is ending")
	}
	j = t.add(r, print)
	j.holds++
	if r.Concurrent {
		t.start(j)
		return j, false, nil
	}
	t.queue = append(t.queue, j)
	t.next()
	return j, false, nil
}

// earlier finds what r repeats, nil for nothing.
func (t *table) earlier(r *wire.ExecRequest, print [32]byte) (*job, error) {
	if j := t.byID[r.ID]; j != nil {
		if j.print != print {
			return nil, conflict("job %s runs another command", r.ID)
		}
		return j, nil
	}
	if t.gone.has["id "+r.ID] {
		return nil, conflict("job %s has ended and its result was dropped", r.ID)
	}
	if key := r.IdempotencyKey; key != "" {
		if j := t.keys[key]; j != nil {
			if j.print != print {
				return nil, conflict("idempotency_key %q belongs to job %s, another command", key, j.view.ID)
			}
			return j, nil
		}
		if t.gone.has["key "+key] {
			return nil, conflict("the job of idempotency_key %q has ended and its result was dropped", key)
		}
	}
	if j := t.dedup[dedupName(r.DedupKey, print)]; r.DedupKey != "" && j != nil && j.repeatable(t.now()) {
		return j, nil
	}
	return nil, nil
}

func (t *table) add(r *wire.ExecRequest, print [32]byte) *job {
	j := newJob(r, print, t.spool, t.now())
	t.byID[r.ID] = j
	t.order = append(t.order, j)
	if r.IdempotencyKey != "" {
		t.keys[r.IdempotencyKey] = j
	}
	if r.DedupKey != "" {
		t.dedup[dedupName(r.DedupKey, print)] = j
	}
	return j
}

// next starts the head of the queue when nothing of the queue runs. t.mu is held.
func (t *table) next() {
	if t.busy || len(t.queue) == 0 {
		return
	}
	j := t.queue[0]
	t.queue = slices.Delete(t.queue, 0, 1)
	t.busy = true
	t.start(j)
}

// ended is called once for every started job, after its end.
func (t *table) ended(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !j.concurrent {
		t.busy = false
		t.next()
	}
	t.count(j)
	t.expire()
}

// get returns the job id, its output held until release.
func (t *table) get(id string) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.byID[id]
	switch {
	case j == nil && t.gone.has["id "+id]:
		return nil, notFound("job %s has ended and its result was dropped", id)
	case j == nil:
		return nil, notFound("there is no job %q", id)
	}
	j.holds++
	return j, nil
}

// release ends a hold on j's output.
func (t *table) release(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.holds--
}

// list is all jobs, oldest first.
func (t *table) list() []*job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.order)
}

// kill ends j, queued or running; an ended one stays as it is.
func (t *table) kill(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.queue, j); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
		t.cancel(j, wire.Done, wire.ReasonKilled, "killed before it started")
		return
	}
	j.kill()
}

// close refuses new jobs and cancels queued ones.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, j := range t.queue {
		t.cancel(j, wire.Failed, wire.ReasonEnded, "the sandbox ended before it started")
	}
	t.queue = nil
}

func (t *table) cancel(j *job, state, reason, text string) {
	j.finish(state, -int(syscall.SIGKILL), reason, text)
	close(j.done)
	t.count(j)
}

func dedupName(key string, print [32]byte) string { return key + string(print[:]) }

// fingerprint is equal for requests of the same command, whatever their id and keys.
func fingerprint(r *wire.ExecRequest) ([32]byte, error) {
	same := *r
	same.ID, same.DedupKey, same.IdempotencyKey = "", "", ""
	text, err := json.Marshal(&same)
	if err != nil {
		return [32]byte{}, badRequest("the command: %v", err)
	}
	return sha256.Sum256(text), nil
}
