package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Rollouts runs a stage made of units, as far as the mode says. The result is filled
// in as far as it came even when the error is not nil.
func Rollouts[Out record.Row](ctx context.Context, cfg Config, deps Deps, stage Stage, src Source[Out]) (Result, error) {
	j, err := start(ctx, cfg, deps, stage)
	if err != nil {
		return Failed(cfg, stage.Name, err)
	}
	if cfg.Mode == ModeCheck {
		return j.finish(j.check(ctx, src.Ready))
	}
	return j.finish(runUnits(ctx, j, src))
}

func runUnits[Out record.Row](ctx context.Context, j *job, src Source[Out]) error {
	out, err := openOutput[Out](ctx, j)
	if err != nil {
		return err
	}
	if found, err := out.find(ctx, src); err != nil {
		return err
	} else if found {
		return out.beside(ctx, src)
	}
	units, err := src.Units(ctx, j.opened)
	if err != nil {
		return err
	}
	if err := checkUnits(units); err != nil {
		return exit.With(exit.Bug, err)
	}
	l := ledger[Out]{out: out, prefix: j.unitsPrefix()}
	mine := j.cfg.Shard.of(units)
	j.update(func(r *Result) {
		r.RowsIn = int64(len(mine))
		r.Units = &UnitCounts{Total: int64(len(mine))}
	})
	switch {
	case j.cfg.DryRun:
		return dryRun(ctx, j, l, mine)
	case j.cfg.Mode == ModePlan:
		return plan(ctx, j, out, units)
	}
	// A shard does what was planned; without a plan there is nothing to hold it to.
	planned, found, err := loadPlan(ctx, out.store, l.prefix+"/plan.json")
	if err == nil && found {
		err = planned.agrees(planOf(units, 1))
	}
	if err != nil {
		return err
	}
	if j.cfg.Mode == ModeRun {
		if err := work(ctx, j, src, l, mine); err != nil {
			return err
		}
		if j.cfg.Shard != (Shard{}) {
			j.update(func(r *Result) { r.Status = StatusShard })
			return nil
		}
	}
	err = commit(ctx, j, src, l, units)
	if err == nil {
		err = out.beside(ctx, src)
	}
	if err != nil && ctx.Err() != nil {
		return stopped(ctx)
	} else {
		return err
	}
}

// work does the units and passes the gate of --max-infra.
func work[Out record.Row](ctx context.Context, j *job, src Source[Out], l ledger[Out], units []Unit) error {
	st := newStopping(ctx, j.cfg.Deadline, j.deps.Grace)
	defer st.end()
	p := &pool[Out]{
		job: j, src: src, ledger: l, take: st.take, work: st.work,
		abort: func(err error) { st.stop(&fatalError{err}) },
		ready: sync.OnceValue(func() error {
			if src.Ready == nil {
				return nil
			}
			return j.await(st.work, min(settling, j.deps.Patience), src.Ready)
		}),
		tools: Tools{Keep: l.out.keep, Blob: l.out.unitBlob, PutBlob: func(ctx context.Context, b []byte) (string, error) { return l.out.putBlob(ctx, objstore.Bytes(b)) }, job: j, store: l.out.store},
	}
	p.needed, p.enough = context.WithCancel(st.work)
	defer p.enough()
	p.front = newFront(src.Limit, len(units))
	stop := j.watch()
	err := p.run(units)
	stop()
	if err != nil {
		return err
	}
	u := j.snapshot().Units
	return gate(j.cfg.MaxInfra, u.Infra, u.Total, p.last)
}

// gate refuses a result when too many of its units could not be found out.
func gate(allowed Share, infra, total int64, last error) error {
	if infra == 0 || float64(infra) <= float64(allowed)*float64(total) {
		return nil
	}
	err := exit.Retryf("%d of %d units (%.3g%%, --max-infra allows %s) met trouble that is not theirs; run again to try just those",
		infra, total, 100*float64(infra)/float64(total), allowed)
	if last != nil {
		err = exit.Retryf("%w; the latest: %w", err, last)
	}
	return err
}

// plan fixes the units and prints the shards.
func plan[Out record.Row](ctx context.Context, j *job, out *output[Out], units []Unit) error {
	p, err := savePlan(ctx, out.store, j.unitsPrefix()+"/plan.json", planOf(units, j.cfg.Shards))
	if err != nil {
		return err
	}
	return j.planned(p.list())
}

// planned ends a stage in plan mode: the shards go to stdout as a JSON list.
func (j *job) planned(shards []string) error {
	j.update(func(r *Result) { r.Status, r.Shards = StatusPlanned, shards })
	b, err := json.Marshal(shards)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(j.deps.Stdout, "%s\n", b); err != nil {
		return fmt.Errorf("print the shards: %w", err)
	}
	return nil
}

// dryRun counts what is done already and does nothing.
func dryRun[Out record.Row](ctx context.Context, j *job, l ledger[Out], units []Unit) error {
	for _, u := range units {
		f, err := l.load(ctx, u)
		switch {
		case err == nil:
			j.update(func(r *Result) {
				r.Units.Reused++
				tally(r, Source[Out]{}, f)
			})
		case !errors.Is(err, objstore.ErrNotFound):
			return err
		}
	}
	j.update(func(r *Result) { r.Status = StatusDryRun })
	return nil
}
