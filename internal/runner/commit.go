package runner

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// maxWindow bounds how many units' rows are in memory when they are made a version.
const maxWindow = 128

// commit reads the ends of all units and makes the version. A unit without an end was
// either tried in vain, and then counts as infra_error, or nobody did it yet, and then
// nothing is committed.
func commit[Out record.Row](ctx context.Context, j *job, src Source[Out], l ledger[Out], units []Unit) error {
	w, err := datasets.NewWriter[Out](l.out.store, j.where.Name, datasets.WriterOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	total := int64(len(units))
	needed, err := upTo(ctx, j, src, l, units)
	if err != nil {
		return err
	}
	spare := int64(len(units) - needed)
	units = slices.SortedFunc(slices.Values(units[:needed]), func(a, b Unit) int { return strings.Compare(a.ID, b.ID) })
	j.update(func(r *Result) { // the numbers of the pool are those of this process; these are of the version
		r.RowsOut, r.Dropped, r.Outcomes, r.Usage = 0, map[string]int64{}, map[string]int64{}, record.Usage{}
		if spare > 0 {
			r.Dropped[ReasonNotNeeded] = spare
		}
	})
	var infra, missing int64
	var first string
	// Units are read a window at a time: in parallel, as a store answers slowly, and
	// then added in order. What is in memory is a window and the writer's batches.
	window := min(8*j.cfg.Workers, maxWindow)
	for len(units) > 0 {
		n := min(window, len(units))
		ends, err := loadAll(ctx, j.cfg.Workers, l, units[:n])
		if err != nil {
			return err
		}
		for i, e := range ends {
			switch {
			case e.found:
				if e.end.dropped == "" {
					if err := w.Write(ctx, e.end.row); err != nil {
						return err
					}
				}
				j.update(func(r *Result) { tally(r, src, e.end) })
			case e.tried:
				infra++
				j.update(func(r *Result) { r.Dropped[ReasonInfra]++ })
			default:
				if missing++; first == "" {
					first = units[i].ID
				}
			}
		}
		units = units[n:]
	}
	if j.cfg.Mode == ModeCommit {
		j.update(func(r *Result) { r.Units.Reused, r.Units.Infra = total-spare-missing-infra, infra })
	}
	if missing > 0 {
		return exit.Retryf("%d of %d units are not finished yet, such as %s; run their shards, then commit again", missing, total, first)
	}
	if err := gate(j.cfg.MaxInfra, infra, total-spare, nil); err != nil {
		return err
	}
	return l.out.commit(ctx, w, src)
}

// end is what is known of a unit.
type end[Out record.Row] struct {
	end          finished[Out]
	found, tried bool
}

func loadAll[Out record.Row](ctx context.Context, workers int, l ledger[Out], units []Unit) ([]end[Out], error) {
	ends := make([]end[Out], len(units))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, u := range units {
		g.Go(func() (err error) {
			e := &ends[i]
			e.end, err = l.load(ctx, u)
			e.found = err == nil
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				e.tried, err = l.tried(ctx, u)
			case err == nil && e.end.dropped == "":
				err = l.out.bring(ctx, e.end.row)
			}
			return err
		})
	}
	return ends, g.Wait()
}
