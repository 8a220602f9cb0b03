package control

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

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

// quotas keeps keys within their quotas. What is held is what the runtime lists, so that
// every replica counts the same; besides it only what this replica starts right now.
// Replicas that start sandboxes for one key at the same time may together go over by
// what each has in flight. Creates per minute and commands in flight are this replica's.
type quotas struct {
	list    func(context.Context) ([]State, error)
	pools   func(context.Context) ([]PoolState, error) // nil where there are none
	now     func() time.Time
	refused func(owner, quota string)

	mu      sync.Mutex
	flight  map[string]*starting // by sandbox id
	creates map[string][]time.Time
	execs   map[string]int
}

// starting is a sandbox that is counted before the runtime lists it.
type starting struct {
	owner       string
	count       int
	cpu, memory float64
	uid         string // once it is started
	until       time.Time
}

// lag is how long a started sandbox may be missing from the runtime's list.
const lag = 10 * time.Second

func newQuotas(list func(context.Context) ([]State, error), now func() time.Time, refused func(owner, quota string)) *quotas {
	return &quotas{list: list, now: now, refused: refused,
		flight: map[string]*starting{}, creates: map[string][]time.Time{}, execs: map[string]int{}}
}

// over is the refusal of what would go over a quota.
func (q *quotas) over(c caller, name string, retry int, limit, use string) error {
	q.refused(c.name, name)
	f := fail(http.StatusTooManyRequests, "quota %s of key %q is %s, in use are %s", name, c.name, limit, use)
	f.retry = retry
	return f
}

// admit counts a sandbox that is about to be started, or says why it must not be.
// The caller says how that went.
func (q *quotas) admit(ctx context.Context, c caller, spec sandbox.Spec) (started func(State, error), err error) {
	if !c.quota.bounds() && c.quota.creates == nil {
		return func(State, error) {}, nil
	}
	own := &starting{owner: c.name, count: 1, cpu: amount(spec.CPU), memory: amount(spec.Memory)}
	for _, a := range []struct {
		name, limit string
		most, asked float64
		text        string
	}{{"cpu", c.quota.cpuText, c.quota.cpu, own.cpu, spec.CPU}, {"memory", c.quota.memoryText, c.quota.memory, own.memory, spec.Memory}} {
		if a.most > 0 && a.asked > a.most {
			q.refused(c.name, a.name)
			return nil, &sandbox.Refused{Image: spec.Image, Reason: fmt.Sprintf("it asks for %s %s, and the quota of key %q is %s in all", a.name, a.text, c.name, a.limit)}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.quota.bounds() {
		if err := q.room(ctx, c, own, ""); err != nil {
			return nil, err
		}
	}
	if most := c.quota.creates; most != nil {
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
	}
	q.flight[spec.ID] = own
	return func(st State, err error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			if q.flight[spec.ID] == own {
				delete(q.flight, spec.ID)
			}
			return
		}
		own.uid, own.until = st.UID, q.now().Add(lag)
	}, nil
}

// room reports whether c's quota has room for more, which takes the place of what the pool
// named instead holds. The caller holds mu, so that of two creates the second sees the first.
func (q *quotas) room(ctx context.Context, c caller, more *starting, instead string) error {
	states, err := q.list(ctx)
	if err != nil {
		return err
	}
	count, cpu, memory, err := q.pooled(ctx, c.name, instead)
	if err != nil {
		return err
	}
	listed, now := map[string]bool{}, q.now()
	for _, st := range states {
		if f := q.flight[st.Spec.ID]; f != nil && f.uid == st.UID {
			delete(q.flight, st.Spec.ID)
		}
		if ownerOf(st) == c.name && st.Phase != Ended {
			listed[st.Spec.ID] = true
			count, cpu, memory = count+1, cpu+amount(st.Spec.CPU), memory+amount(st.Spec.Memory)
		}
	}
	for id, f := range q.flight {
		switch {
		case f.uid != "" && now.After(f.until):
			delete(q.flight, id)
		case f.owner == c.name && !listed[id]:
			count, cpu, memory = count+1, cpu+f.cpu, memory+f.memory
		}
	}
	switch most := c.quota; {
	case most.sandboxes != nil && count+more.count > *most.sandboxes:
		return q.over(c, "sandboxes", 5, fmt.Sprint(*most.sandboxes), fmt.Sprint(count))
	case most.cpu > 0 && cpu+more.cpu > most.cpu:
		return q.over(c, "cpu", 5, most.cpuText, fmt.Sprintf("%g", cpu))
	case most.memory > 0 && memory+more.memory > most.memory:
		return q.over(c, "memory", 5, most.memoryText, fmt.Sprintf("%.0fMi", memory/(1<<20)))
	}
	return nil
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
	v, err := ParseQuantity(text)
	if err != nil {
		return 0
	}
	return v
}
