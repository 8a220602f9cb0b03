// Package collect finds and deletes garbage: objects of a root that nothing needs any
// more, such as shards of a writer that was killed and never repeated, or the units of a
// stage whose version is there.
//
// It marks over all datasets of a root, as they share blobs, and does nothing when a
// manifest or a list of blobs cannot be read: what is not known to be garbage stays. What
// is younger than an age stays as well, which is what keeps it apart from writers that
// are at work; those that find an old object look for it again before they end. Objects that are none of a dataset's are never touched.
package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// DefaultAge is how old garbage must be: longer than any stage runs.
const DefaultAge = 7 * 24 * time.Hour

// Options tune a collection.
type Options struct {
	OlderThan time.Duration // 0 is DefaultAge; a negative one is none
	Now       func() time.Time
	// Progress is called for each object that is deleted; may be nil.
	Progress func(done, total int)
}

// Garbage is an object that nothing needs.
type Garbage struct {
	objstore.Info
	Kind Kind
}

// Plan is what a collection would do.
type Plan struct {
	Root     string
	Datasets int
	Versions int
	Objects  int   // of datasets, all told
	Young    int   // not needed, and too young to be garbage
	Foreign  int   // of no dataset
	Bytes    int64 // of Garbage
	Garbage  []Garbage

	store objstore.Store
	o     Options
	cut   time.Time
	marks *marks
}

// Find looks for garbage and deletes nothing.
func Find(ctx context.Context, store objstore.Store, o Options) (*Plan, error) {
	if o.OlderThan == 0 {
		o.OlderThan = DefaultAge
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Plan{Root: store.String(), store: store, o: o, cut: o.Now().Add(-max(o.OlderThan, 0))}
	var err error
	// What is committed from here on, Delete finds when it looks again.
	if p.marks, err = mark(ctx, store, p.cut); err != nil {
		return nil, fmt.Errorf("nothing is deleted: %w", err)
	}
	p.Datasets, p.Versions = len(p.marks.datasets), len(p.marks.versions)
	for info, err := range store.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store, err)
		}
		kind, needed := p.marks.look(info.Key)
		if kind == Foreign {
			p.Foreign++
			continue
		}
		p.Objects++
		switch {
		case needed:
		case !info.Modified.Before(p.cut):
			p.Young++
		default:
			p.Garbage = append(p.Garbage, Garbage{info, kind})
			p.Bytes += info.Size
		}
	}
	if p.Objects == 0 {
		return nil, exit.Inputf("%s: no datasets there", store)
	}
	return p, nil
}

// Delete removes the plan's garbage, and reports how many objects that were. It looks
// again first: what a version that was committed meanwhile needs stays, and so does an
// object that was written again. At the end it looks once more, and names what a version
// that was committed during the deletion has lost; doing its work again mends it.
func (p *Plan) Delete(ctx context.Context) (deleted int, err error) {
	now, err := mark(ctx, p.store, p.cut)
	if err != nil {
		return 0, fmt.Errorf("nothing is deleted: %w", err)
	}
	gone := map[string]bool{}
	// Lists of blobs and shards go before blobs, so that no list names a blob that is gone.
	slices.SortStableFunc(p.Garbage, func(a, b Garbage) int { return int(a.Kind) - int(b.Kind) })
	for i, g := range p.Garbage {
		if p.o.Progress != nil {
			p.o.Progress(i, len(p.Garbage))
		}
		if _, needed := now.look(g.Key); needed {
			continue
		}
		info, err := p.store.Stat(ctx, g.Key)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return len(gone), fmt.Errorf("collect %s: %w", p.store, err)
		}
		if info.ETag != g.ETag || !info.Modified.Before(p.cut) {
			continue
		}
		if err := p.store.Delete(ctx, g.Key); err != nil {
			return len(gone), fmt.Errorf("collect %s: %w", p.store, err)
		}
		gone[g.Key] = true
	}
	if p.o.Progress != nil {
		p.o.Progress(len(p.Garbage), len(p.Garbage))
	}
	return len(gone), p.lost(ctx, gone)
}

// lost is an error when a version that is there now needs something that was deleted.
func (p *Plan) lost(ctx context.Context, gone map[string]bool) error {
	if len(gone) == 0 {
		return nil
	}
	now, err := mark(ctx, p.store, p.cut)
	if err != nil {
		return fmt.Errorf("%s: garbage was deleted, and since then something cannot be read; if its version was committed meanwhile, run its stage again: %w", p.store, err)
	}
	var lost []string
	for key := range gone {
		if _, needed := now.look(key); !needed {
			continue
		}
		_, err := p.store.Stat(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			lost = append(lost, key)
		} else if err != nil {
			return fmt.Errorf("collect %s: %w", p.store, err)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return exit.Inputf("%s: a version was committed while garbage was collected, and took up %d objects that were just deleted; run its stage again:\n%s",
		p.store, len(lost), strings.Join(lost, "\n"))
}

// openAll opens every version of a dataset; one that cannot be opened is an error.
func openAll(ctx context.Context, store objstore.Store, name string) ([]*datasets.Version, error) {
	var out []*datasets.Version
	for v, err := range datasets.Versions(ctx, store, name) {
		if err != nil {
			return nil, fmt.Errorf("a version cannot be read: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}
