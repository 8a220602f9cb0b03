package control

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"orchard/internal/sandbox"
)

// MaxPool is how many sandboxes one pool keeps at most.
const MaxPool = 500

var poolName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Pool is sandboxes that are started before anybody asks for them.
type Pool struct {
	Name string
	// Spec is what they are: Image, CPU, Memory, Reserve, Disk, Placement and Owner. What
	// else a sandbox has it gets when it is claimed.
	Spec   sandbox.Spec
	Shared bool // sandboxes of every owner come from it, not only Spec.Owner's
	Size   int  // how many are kept ready
}

// PoolState is a pool as a runtime knows it.
type PoolState struct {
	Pool
	Ready    int // their agents answer
	Starting int
	Claimed  int // sandboxes from it that have not ended
	// Message is why the last one did not start, or what those wait for that start now.
	Message  string
	Failures int       // in a row: none was ready in between
	RetryAt  time.Time // none is made before; zero is that nothing is wrong
}

// Pooler is a Runtime that keeps pools: its Start gives a ready sandbox away when one
// matches. It is optional.
type Pooler interface {
	// SetPool makes the pool of this name as p says. ErrExists when another owner has it.
	SetPool(ctx context.Context, p Pool) (PoolState, error)
	// Pool is ErrNotFound for one that is not there.
	Pool(ctx context.Context, name string) (PoolState, error)
	// Pools is all of them, by name.
	Pools(ctx context.Context) ([]PoolState, error)
	// DeletePool ends the sandboxes of a pool that nobody has claimed, and no others.
	DeletePool(ctx context.Context, name string) error
}

var errNoPools = &sandbox.Refused{Reason: "this service keeps no pools"}

// ownerOfPool is whose a pool is.
func ownerOfPool(p Pool) string { return ownerOf(State{Spec: p.Spec}) }

// SetPool implements Pooler for the caller, whose the pool then is.
func (t *tenants) SetPool(ctx context.Context, p Pool) (PoolState, error) {
	rt, ok := t.runtime.(Pooler)
	if !ok {
		return PoolState{}, errNoPools
	}
	c, ok := callerOf(ctx)
	switch {
	case !ok:
		return PoolState{}, errNobody
	case p.Shared && !c.admin:
		return PoolState{}, &sandbox.Refused{Image: p.Spec.Image, Reason: "shared: a pool for every owner is for admin keys"}
	}
	if err := t.allow.check(c, p.Spec); err != nil {
		return PoolState{}, err
	}
	p.Spec.Owner = c.name
	if err := t.quotas.admitPool(ctx, c, p); err != nil {
		return PoolState{}, err
	}
	return rt.SetPool(ctx, p)
}

// Pool implements Pooler: what is another's is unknown.
func (t *tenants) Pool(ctx context.Context, name string) (PoolState, error) {
	rt, ok := t.runtime.(Pooler)
	if !ok {
		return PoolState{}, ErrNotFound
	}
	st, err := rt.Pool(ctx, name)
	if err == nil && !sees(ctx, State{Spec: st.Spec}) {
		return PoolState{}, ErrNotFound
	}
	return st, err
}

// Pools implements Pooler.
func (t *tenants) Pools(ctx context.Context) ([]PoolState, error) {
	rt, ok := t.runtime.(Pooler)
	if !ok {
		return nil, nil
	}
	all, err := rt.Pools(ctx)
	own := make([]PoolState, 0, len(all))
	for _, st := range all {
		if sees(ctx, State{Spec: st.Spec}) {
			own = append(own, st)
		}
	}
	return own, err
}

// DeletePool implements Pooler.
func (t *tenants) DeletePool(ctx context.Context, name string) error {
	st, err := t.Pool(ctx, name)
	if err != nil {
		return err
	}
	if err := t.runtime.(Pooler).DeletePool(ctx, name); err != nil {
		return err
	}
	if c, ok := callerOf(ctx); ok && c.quota.bounds() && c.name == ownerOfPool(st.Pool) {
		t.quotas.release(ctx, c, poolBooking(name), Booking{})
	}
	return nil
}

// poolBooking is what a pool is booked as: no sandbox has such an id.
func poolBooking(name string) string { return "pool/" + name }

// admitPool is why c may not keep p: a pool holds its size of its owner's quota, ready or
// not, and a sandbox claimed from it counts as any other.
func (q *quotas) admitPool(ctx context.Context, c caller, p Pool) error {
	if !c.quota.bounds() {
		return nil
	}
	return q.reserve(ctx, c, poolBooking(p.Name), bookingOf(p, q.now()))
}

func bookingOf(p Pool, now time.Time) Booking {
	n := float64(p.Size)
	return Booking{Count: p.Size, CPU: n * amount(p.Spec.CPU), Memory: n * amount(p.Spec.Memory), At: now}
}

// poolView is a pool as clients see it.
type poolView struct {
	Name          string   `json:"name"`
	Owner         string   `json:"owner"`
	Shared        bool     `json:"shared"`
	Image         string   `json:"image"`
	CPU           string   `json:"cpu"`
	Memory        string   `json:"memory"`
	CPURequest    string   `json:"cpu_request,omitempty"`
	MemoryRequest string   `json:"memory_request,omitempty"`
	Disk          string   `json:"disk,omitempty"`
	GPU           int      `json:"gpu,omitempty"`
	Spot          bool     `json:"spot,omitempty"`
	Size          int      `json:"size"`
	Ready         int      `json:"ready"`
	Starting      int      `json:"starting"`
	Claimed       int      `json:"claimed"`
	Message       string   `json:"message,omitempty"`
	Failures      int      `json:"failures,omitempty"`
	RetryAt       *float64 `json:"retry_at,omitempty"`
}

func viewOfPool(p PoolState) poolView {
	return poolView{
		p.Name, ownerOfPool(p.Pool), p.Shared, p.Spec.Image, p.Spec.CPU, p.Spec.Memory, p.Spec.Reserve.CPU, p.Spec.Reserve.Memory, p.Spec.Disk,
		p.Spec.Placement.GPU, p.Spec.Placement.Spot, p.Size, p.Ready, p.Starting, p.Claimed, p.Message, p.Failures, epoch(p.RetryAt),
	}
}

func unknownPool(name string) *failure { return fail(http.StatusNotFound, "Pool %s not found", name) }

// putPool makes a pool, or changes one.
func (s *Service) putPool(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	p, err := parsePool(b, r.PathValue("pool"), s.set)
	if err != nil {
		return err
	}
	st, err := s.runtime.SetPool(r.Context(), p)
	switch {
	case errors.Is(err, ErrExists):
		return fail(http.StatusConflict, "Pool %s is taken", p.Name)
	case told(err):
		return err
	case err != nil:
		return away(5, "pool %s could not be made: %v", p.Name, err)
	}
	writeJSON(w, http.StatusOK, viewOfPool(st))
	return nil
}

func (s *Service) getPool(w http.ResponseWriter, r *http.Request) error {
	st, err := s.runtime.Pool(r.Context(), r.PathValue("pool"))
	switch {
	case errors.Is(err, ErrNotFound):
		return unknownPool(r.PathValue("pool"))
	case err != nil:
		return away(5, "pool %s could not be looked up: %v", r.PathValue("pool"), err)
	}
	writeJSON(w, http.StatusOK, viewOfPool(st))
	return nil
}

func (s *Service) listPools(w http.ResponseWriter, r *http.Request) error {
	all, err := s.runtime.Pools(r.Context())
	if err != nil {
		return away(5, "pools could not be listed: %v", err)
	}
	views := make([]poolView, len(all))
	for i, p := range all {
		views[i] = viewOfPool(p)
	}
	writeJSON(w, http.StatusOK, struct {
		Pools []poolView `json:"pools"`
	}{views})
	return nil
}

// deletePool ends a pool; one that is not there is as good as ended.
func (s *Service) deletePool(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("pool")
	if err := s.runtime.DeletePool(r.Context(), name); err != nil && !errors.Is(err, ErrNotFound) {
		return away(5, "pool %s could not be deleted: %v", name, err)
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		Pool   string `json:"pool"`
	}{"deleted", name})
	return nil
}

// parsePool reads what a pool is to be: fields of a sandbox, and size and shared.
func parsePool(b *body, name string, set Settings) (Pool, error) {
	for _, field := range []string{"env", "egress", "workdir", "labels", "lifetime_seconds", "lease_seconds", "sandbox_id"} {
		if b.get(field) != nil {
			b.fault(field, "value_error", field+" is a sandbox's own, given when it is made: a pool has none")
		}
	}
	b.required("size")
	n := b.whole("size", MaxPool)
	if !poolName.MatchString(name) {
		b.fault("name", "value_error.str.regex", "a pool's name is 1 to 40 lower-case letters, digits and hyphens")
	}
	spec, err := parseSpec(b, set)
	if err == nil && spec.OpenNetwork {
		err = invalidField("body", "block_network", "value_error", "a pool's sandboxes are closed until they are claimed: leave block_network true")
	}
	p := Pool{Name: name, Size: n, Shared: b.flag("shared", false), Spec: sandbox.Spec{
		Image: spec.Image, CPU: spec.CPU, Memory: spec.Memory, Reserve: spec.Reserve, Disk: spec.Disk, Placement: spec.Placement,
	}}
	if err == nil {
		err = b.err()
	}
	return p, err
}
