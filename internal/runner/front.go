package runner

import (
	"context"
	"sync"

	"orchard/datasets/record"
)

// front follows the units that are done from the first on without a gap, and how many
// rows of them count. For several goroutines.
type front struct {
	limit int // 0: all units are needed

	mu    sync.Mutex
	ended []ended
	at    int // all units before it have ended
	got   int // of them, how many count
}

type ended struct{ yes, counts bool }

func newFront(limit, units int) *front {
	f := &front{limit: limit}
	if limit > 0 {
		f.ended = make([]ended, units)
	}
	return f
}

// end says that unit n has ended, and reports whether no more units are needed.
func (f *front) end(n int, counts bool) bool {
	if f.limit == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[n] = ended{true, counts}
	for f.at < len(f.ended) && f.got < f.limit && f.ended[f.at].yes {
		if f.ended[f.at].counts {
			f.got++
		}
		f.at++
	}
	return f.got >= f.limit
}

// counts is whether the end of a unit is one of those that Limit waits for.
func (s Source[Out]) counts(f finished[Out]) bool {
	return s.Limit > 0 && f.dropped == "" && s.Counts(f.row)
}

// upTo is how many units, from the first on, are needed for Source.Limit: all, when
// there is none or they are too few.
func upTo[Out record.Row](ctx context.Context, j *job, src Source[Out], l ledger[Out], units []Unit) (int, error) {
	if src.Limit == 0 {
		return len(units), nil
	}
	f := newFront(src.Limit, len(units))
	for n := 0; n < len(units); {
		ends, err := loadAll(ctx, j.cfg.Workers, l, units[n:min(n+j.cfg.Workers, len(units))])
		if err != nil {
			return 0, err
		}
		for _, e := range ends {
			if f.end(n, e.found && src.counts(e.end)) {
				return f.at, nil
			}
			n++
		}
	}
	return len(units), nil
}
