package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"orchard/internal/quantity"
	"orchard/internal/sandbox"
)

// quota is what one key may hold at a time. nil and 0 are no bound.
type quota struct {
	sandboxes, creates, execs *int
	cpu, memory               float64
	cpuText, memoryText       string // as the file has them
}

// bounds reports whether q bounds what a create makes.
func (q quota) bounds() bool { return q.sandboxes != nil || q.cpu > 0 || q.memory > 0 }

// quotas keeps keys within their quotas, over all replicas: what is held is what the runtime
// lists and what is booked, and of two bookings the second sees the first wherever they are
// made. Creates per minute and commands in flight are this replica's.
type quotas struct {
	list    func(context.Context) ([]State, error)
	pools   func(context.Context) ([]PoolState, error) // nil where there are none
	book    Booker
	now     func() time.Time
	refused func(owner, quota string)

	mu      sync.Mutex
	creates map[string][]time.Time
	execs   map[string]int
}

func newQuotas(rt Runtime, now func() time.Time, refused func(owner, quota string)) *quotas {
	q := &quotas{list: rt.List, now: now, refused: refused, creates: map[string][]time.Time{}, execs: map[string]int{}}
	if p, ok := rt.(Pooler); ok {
		q.pools = p.Pools
	}
	var shared bool
	if q.book, shared = rt.(Booker); !shared {
		q.book = &ownBook{}
	}
	return q
}

// over is the refusal of what would go over a quota.
func (q *quotas) over(c caller, name string, retry int, limit, use string) error {
	q.refused(c.name, name)
	return full(c, name, retry, limit, use)
}

func full(c caller, name string, retry int, limit, use string) error {
	f := fail(http.StatusTooManyRequests, "quota %s of key %q is %s, in use are %s", name, c.name, limit, use)
	f.retry = retry
	return f
}

// admit counts a sandbox that is about to be started, or says why it must not be.
// The caller says how that went.
func (q *quotas) admit(ctx context.Context, c caller, spec sandbox.Spec) (started func(State, error), err error) {
	own := Booking{Count: 1, CPU: amount(spec.CPU), Memory: amount(spec.Memory), At: q.now()}
	for _, a := range []struct {
		name, limit string
		most, asked float64
		text        string
	}{{"cpu", c.quota.cpuText, c.quota.cpu, own.CPU, spec.CPU}, {"memory", c.quota.memoryText, c.quota.memory, own.Memory, spec.Memory}} {
		if a.most > 0 && a.asked > a.most {
			q.refused(c.name, a.name)
			return nil, &sandbox.Refused{Image: spec.Image, Reason: fmt.Sprintf("it asks for %s %s, and the quota of key %q is %s in all", a.name, a.text, c.name, a.limit)}
		}
	}
	back, err := q.create(c)
	if err != nil || !c.quota.bounds() {
		return func(State, error) {}, err
	}
	if err := q.reserve(ctx, c, spec.ID, own); err != nil {
		back()
		return nil, err
	}
	return func(st State, err error) {
		// Of any other error nobody knows whether it was made: then it counts for a while.
		if told(err) || errors.Is(err, ErrExists) && ownerOf(st) != c.name {
			q.release(ctx, c, spec.ID, own)
		}
	}, nil
}

// create counts one against the creates per minute; back takes it out again.
func (q *quotas) create(c caller) (back func(), err error) {
	most := c.quota.creates
	if most == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	recent := q.creates[c.name]
	for len(recent) > 0 && now.Sub(recent[0]) >= time.Minute {
		recent = recent[1:]
	}
	if len(recent) >= *most {
		retry := 60
		if len(recent) > 0 {
			retry = int(math.Ceil(time.Minute.Seconds() - now.Sub(recent[0]).Seconds()))
		}
		return nil, q.over(c, "creates_per_minute", max(retry, 1), fmt.Sprint(*most), fmt.Sprint(len(recent)))
	}
	q.creates[c.name] = append(recent, now)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if i := slices.Index(q.creates[c.name], now); i >= 0 {
			q.creates[c.name] = slices.Delete(slices.Clone(q.creates[c.name]), i, i+1)
		}
	}, nil
}

// exec counts a command that its client waits for.
func (q *quotas) exec(c caller) (done func(), err error) {
	most := c.quota.execs
	if most == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.execs[c.name]; n >= *most {
		return nil, q.over(c, "execs_in_flight", 1, fmt.Sprint(*most), fmt.Sprint(n))
	}
	q.execs[c.name]++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.execs[c.name]--; q.execs[c.name] == 0 {
			delete(q.execs, c.name)
		}
	}, nil
}

// amount is a quantity that was checked before.
func amount(text string) float64 {
	v, err := quantity.Parse(text)
	if err != nil {
		return 0
	}
	return v
}
