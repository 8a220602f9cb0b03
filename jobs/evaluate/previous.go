package evaluate

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/internal/evaluation/history"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Previous is what --baseline says for the evaluation that came before this one: of another
// run with the same tasks, settings and seed, with a headline. Which one it is depends on
// when the rollouts of both were whole, so a rerun compares with the same one again.
const Previous = "previous"

// previous is the rollouts of the evaluation before; nil when there is none.
func (c Config) previous(ctx context.Context, d runner.Deps, rollouts string) (*datasets.Version, error) {
	now, err := datasets.Open(ctx, d.WithDefaults().Open, rollouts)
	if err != nil {
		return nil, err
	}
	all, err := history.All(ctx, now.Store(), history.Name(now.Location().Name))
	if err != nil {
		return nil, exit.With(exit.Code(err), fmt.Errorf("--baseline previous: %w", err))
	}
	before, there := history.Before(all, now.Manifest())
	if !there {
		return nil, nil
	}
	return datasets.Open(ctx, d.WithDefaults().Open, before.Rollouts)
}
