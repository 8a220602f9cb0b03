package credit

import (
	"context"
	"iter"
	"sync"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// feed gives units their rollouts. A trajectory may be megabytes, so they are not kept
// with the units; and since units are worked on in the order of the rows, one pass over
// the datasets serves them, with a few rows at hand for workers that are a little behind.
// What is asked for later than that, such as by a retry, is read by itself. Safe for
// concurrent use.
type feed struct {
	ctx      context.Context // of the whole stage: a pass outlives the unit that began it
	versions []*datasets.Version
	spare    int // rows at hand

	mu      sync.Mutex
	version int // of the pass
	last    string
	next    func() (record.Rollout, error, bool)
	end     func()
	passed  []record.Rollout // the latest, oldest first
}

// get is a rollout of one of the versions.
func (f *feed) get(ctx context.Context, version int, id string) (record.Rollout, error) {
	r, ok, err := f.pass(version, id)
	if ok || err != nil {
		return r, err
	}
	for r, err := range datasets.Rows[record.Rollout](ctx, f.versions[version], datasets.Where("rollout_id", "==", id)) {
		return r, err
	}
	return r, exit.Inputf("--in %s: rollout %s is not there any more", f.versions[version].Location(), id)
}

// pass goes forward to a rollout; ok is false when it is behind and not at hand.
func (f *feed) pass(version int, id string) (r record.Rollout, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.passed {
		if r.RolloutID == id {
			return r, true, nil
		}
	}
	if f.next != nil && (version < f.version || version == f.version && id <= f.last) {
		return r, false, nil
	}
	if f.next == nil || version != f.version {
		f.stop()
		rows := datasets.Rows[record.Rollout](f.ctx, f.versions[version], datasets.Where("rollout_id", ">=", id))
		f.next, f.end = iter.Pull2(rows)
		f.version = version
	}
	for {
		r, err, more := f.next()
		if !more || err != nil {
			f.stop()
			return r, false, err
		}
		f.last = r.RolloutID
		if f.passed = append(f.passed, r); len(f.passed) > f.spare {
			f.passed[0] = record.Rollout{}
			f.passed = f.passed[1:]
		}
		if r.RolloutID >= id {
			return r, r.RolloutID == id, nil
		}
	}
}

// close ends the pass.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
}

func (f *feed) stop() {
	if f.end != nil {
		f.end()
	}
	f.next, f.end, f.passed, f.last = nil, nil, nil, ""
}
