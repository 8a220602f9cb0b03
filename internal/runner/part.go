package runner

import (
	"context"
	"errors"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// Scope says what pieces of units belong together. Work of other keys, and of other
// stages, that has the same scope shares them, such as the rollouts of one policy.
type Scope struct {
	Dataset string // a name beside that of --out; the pieces lie under its units/
	ID      string // of everything that decides a piece beside its own id
}

func (s Scope) prefix() string { return datasets.UnitsPrefix(s.Dataset, seal.ID("part", s.ID)) }

// Part does a piece of a unit's work once: what do returns is an object that is created
// if absent when the piece ends, and a unit that is tried again, in this process or
// another, is given it back; reused says so. The pieces of a scope are garbage when
// none of them is young.
//
// An error of do is returned as it is, and leaves nothing behind. Safe for concurrent use.
func Part[T record.Row](ctx context.Context, t Tools, scope Scope, u Unit, do func(context.Context) (T, error)) (row T, reused bool, err error) {
	if err := checkUnits([]Unit{u}); err != nil {
		return row, false, exit.With(exit.Bug, err)
	}
	l := pieces[T](t.job, t.store, scope)
	f, err := l.load(ctx, u)
	if err == nil || !errors.Is(err, objstore.ErrNotFound) {
		return f.row, err == nil, err
	}
	if row, err = do(ctx); err != nil {
		return row, false, err
	}
	if reused, err = l.save(ctx, u, finished[T]{row: row}, ""); err != nil || !reused {
		return row, false, err
	}
	f, err = l.load(context.WithoutCancel(ctx), u) // another process was first: its row counts
	return f.row, true, err
}

// LoadPart is a piece that was done, or objstore.ErrNotFound, for a pass that gathers them.
func LoadPart[T, Out record.Row](ctx context.Context, p *Pass[Out], scope Scope, id string) (row T, err error) {
	f, err := pieces[T](p.out.job, p.out.store, scope).load(ctx, Unit{ID: id})
	return f.row, err
}

func pieces[T record.Row](j *job, store objstore.Store, s Scope) ledger[T] {
	return ledger[T]{out: &output[T]{job: j, store: store, keeper: datasets.Keeper{Store: store}}, prefix: s.prefix()}
}
