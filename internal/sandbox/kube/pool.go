package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

// poolKey is where a pool's ConfigMap has its record.
const poolKey = "pool"

// pool is what is known of a pool: a ConfigMap, and nothing beside it.
//
// Slots bound it: only a Pod that has the name of a slot is ever made, and a slot gets
// another name only when its Pod was seen claimed. So there are never more idle Pods than
// slots, however many replicas make them, and whatever their caches say.
type pool struct {
	Spec     sandbox.Spec `json:"spec"` // what the Pods are; its owner is the pool's
	Shared   bool         `json:"shared,omitempty"`
	Slots    []string     `json:"slots"`              // random, of the names of Pods
	Failures int          `json:"failures,omitempty"` // Pods in a row that did not start
	Error    string       `json:"error,omitempty"`    // why the last one did not
	Retry    time.Time    `json:"retry,omitzero"`     // no Pod is made before

	name string
	from *corev1.ConfigMap
}

func poolObject(name string) string { return "sandbox-pool-" + name }

// warmName is the name of a slot's Pod.
func warmName(pool, slot string) string { return "warm-" + pool + "-" + slot }

func readPool(m *corev1.ConfigMap) (*pool, error) {
	p := &pool{name: m.Labels[labelPool], from: m}
	if err := json.Unmarshal([]byte(m.Data[poolKey]), p); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
	}
	return p, nil
}

// names are those of the pool's Pods.
func (p *pool) names() []string {
	names := make([]string, len(p.Slots))
	for i, slot := range p.Slots {
		names[i] = warmName(p.name, slot)
	}
	return names
}

// resize makes it have n slots.
func (p *pool) resize(n int) {
	p.Slots = p.Slots[:min(n, len(p.Slots))]
	for len(p.Slots) < n {
		p.Slots = append(p.Slots, seal.Random(4))
	}
}

// observePool takes in a pool's ConfigMap, or that it is gone.
func (r *Runtime) observePool(m *corev1.ConfigMap, gone bool) *pool {
	p, err := readPool(m)
	if err != nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Msg("a ConfigMap that looks like a pool is none")
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.pools[p.name]
	switch {
	case gone && old != nil && old.from.UID == m.UID:
		delete(r.pools, p.name)
	case gone:
	case old == nil || newerVersion(m.ResourceVersion, old.from.ResourceVersion):
		r.pools[p.name] = p
	default:
		return old
	}
	return p
}

// fetchPool is a pool as the cluster has it now; the error may be IsNotFound.
func (r *Runtime) fetchPool(ctx context.Context, name string) (*pool, error) {
	m, err := r.getMap(ctx, poolObject(name))
	if err != nil {
		if apierrors.IsNotFound(err) {
			r.mu.Lock()
			delete(r.pools, name)
			r.mu.Unlock()
		}
		return nil, err
	}
	p, err := readPool(m)
	if err == nil {
		r.observePool(m, false)
	}
	return p, err
}

// changePool makes one change to a pool as it is at that moment; change says whether there
// is anything to do. The error may be IsNotFound.
func (r *Runtime) changePool(ctx context.Context, name string, change func(*pool) bool) (*pool, error) {
	for {
		p, err := r.fetchPool(ctx, name)
		if err != nil || !change(p) {
			return p, err
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encode pool %s: %w", name, err)
		}
		p.from.Data = map[string]string{poolKey: string(raw)}
		made, err := r.updateMap(ctx, p.from)
		switch {
		case err == nil:
			return r.observePool(made, false), nil
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("change pool %s: %w", name, err)
		}
	}
}

// SetPool implements control.Pooler.
func (r *Runtime) SetPool(ctx context.Context, want control.Pool) (control.PoolState, error) {
	probe := want.Spec
	probe.ID = "pool"
	if err := check(probe); err != nil {
		return control.PoolState{}, err
	}
	if _, err := r.opts.resourcesOf(probe); err != nil {
		return control.PoolState{}, err
	}
	spec := want.Spec
	spec.ReadyTimeout, spec.Lifetime, spec.Workdir = warmPatience, warmLife, "/"
	for {
		taken := false
		p, err := r.changePool(ctx, want.Name, func(p *pool) bool {
			if taken = p.Spec.Owner != spec.Owner; taken {
				return false
			}
			p.Spec, p.Shared = spec, want.Shared
			p.Failures, p.Error, p.Retry = 0, "", time.Time{}
			p.resize(want.Size)
			return true
		})
		switch {
		case taken:
			return control.PoolState{}, control.ErrExists
		case apierrors.IsNotFound(err):
			p = &pool{Spec: spec, Shared: want.Shared, name: want.Name}
			p.resize(want.Size)
			err = r.makePool(ctx, p)
			if apierrors.IsAlreadyExists(err) {
				continue
			}
		}
		if err != nil {
			return control.PoolState{}, fmt.Errorf("make pool %s: %w", want.Name, err)
		}
		r.wakeKeeper()
		return r.poolState(p), nil
	}
}

func (r *Runtime) makePool(ctx context.Context, p *pool) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	made, err := r.createMap(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: poolObject(p.name), Namespace: r.opts.Namespace,
			Labels: map[string]string{labelApp: appPool, labelPool: p.name},
		},
		Data: map[string]string{poolKey: string(raw)},
	})
	if err == nil {
		r.observePool(made, false)
	}
	return err
}

// Pool implements control.Pooler.
func (r *Runtime) Pool(ctx context.Context, name string) (control.PoolState, error) {
	p, err := r.fetchPool(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return control.PoolState{}, fmt.Errorf("pool %s: %w", name, control.ErrNotFound)
	case err != nil:
		return control.PoolState{}, fmt.Errorf("look for pool %s: %w", name, err)
	}
	return r.poolState(p), nil
}

// Pools implements control.Pooler, from the cache.
func (r *Runtime) Pools(context.Context) ([]control.PoolState, error) {
	r.mu.Lock()
	all := make([]*pool, 0, len(r.pools))
	for _, p := range r.pools {
		all = append(all, p)
	}
	r.mu.Unlock()
	states := make([]control.PoolState, len(all))
	for i, p := range all {
		states[i] = r.poolState(p)
	}
	slices.SortFunc(states, func(a, b control.PoolState) int { return strings.Compare(a.Name, b.Name) })
	return states, nil
}

// DeletePool implements control.Pooler. The Pods go a moment later: no replica keeps idle
// ones of a pool that is not there.
func (r *Runtime) DeletePool(ctx context.Context, name string) error {
	if err := r.deleteMap(ctx, poolObject(name)); err != nil {
		return fmt.Errorf("delete pool %s: %w", name, err)
	}
	r.mu.Lock()
	delete(r.pools, name)
	r.mu.Unlock()
	r.wakeKeeper()
	return nil
}

// poolState is how a pool is.
func (r *Runtime) poolState(p *pool) control.PoolState {
	spec := p.Spec
	spec.ReadyTimeout, spec.Lifetime, spec.Workdir = 0, 0, ""
	st := control.PoolState{
		Pool:    control.Pool{Name: p.name, Spec: spec, Shared: p.Shared, Size: len(p.Slots)},
		Message: p.Error, Failures: p.Failures, RetryAt: p.Retry,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.warm {
		switch {
		case e.pool != p.name || e.over():
		case e.idle():
			st.Ready++
		default:
			if st.Starting++; st.Message == "" {
				st.Message = e.seen.waitsFor(e.pod)
			}
		}
	}
	for _, e := range r.byID {
		if !e.over() && !e.claimed.IsZero() && e.pod.Annotations[annotPool] == p.name {
			st.Claimed++
		}
	}
	return st
}
