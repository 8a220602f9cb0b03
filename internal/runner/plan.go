package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// planObject fixes the units of a key and how they are shared out, at
// units/<key>/plan.json. The first plan of a key stays.
type planObject struct {
	Format int    `json:"format"`
	Units  int    `json:"units"`
	Sum    string `json:"sum"` // of the unit ids, in order
	Shards int    `json:"shards"`
}

func planOf(units []Unit, shards int) planObject {
	ids := make([]string, len(units))
	for i, u := range units {
		ids[i] = u.ID
	}
	return planObject{Format: unitFormat, Units: len(units), Sum: seal.ID(ids...), Shards: max(1, min(shards, len(units)))}
}

// list is the plan's shards as --shard takes them; none when there is no unit.
func (p planObject) list() []string {
	out := []string{}
	for i := range p.Shards {
		if p.Units > 0 {
			out = append(out, Shard{i + 1, p.Shards}.String())
		}
	}
	return out
}

// savePlan stores the plan of these units, or adopts the one that is there.
func savePlan(ctx context.Context, s objstore.Store, key string, p planObject) (planObject, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	_, err = s.Create(ctx, key, objstore.Bytes(b))
	if !errors.Is(err, objstore.ErrExists) {
		return p, err
	}
	there, found, err := loadPlan(ctx, s, key)
	if err == nil && found {
		err = there.agrees(p)
	}
	return there, err
}

func loadPlan(ctx context.Context, s objstore.Store, key string) (p planObject, found bool, err error) {
	b, _, err := objstore.ReadAll(ctx, s, key, unitLimit)
	if errors.Is(err, objstore.ErrNotFound) {
		return p, false, nil
	}
	if err == nil {
		if err = json.Unmarshal(b, &p); err != nil || p.Format != unitFormat || p.Shards < 1 {
			err = exit.Inputf("plan %s/%s is damaged: format %d, %d shards: %w", s, key, p.Format, p.Shards, err)
		}
	}
	return p, true, err
}

// agrees refuses units other than those that were planned: then the stage's Units is
// not the same for the same inputs.
func (p planObject) agrees(now planObject) error {
	if p.Units != now.Units || p.Sum != now.Sum {
		return exit.With(exit.Bug, fmt.Errorf("the same inputs and settings gave %d units when they were planned and now %d others", p.Units, now.Units))
	}
	return nil
}
