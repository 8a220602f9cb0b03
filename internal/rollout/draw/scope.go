package draw

import (
	"fmt"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// Scope is what rollouts must have in common to stand for each other: dataset, settings,
// policy, weights and seed. A task whose content changed is another task, though its id
// stayed.
type Scope struct {
	dataset, id string
}

// NewScope is the scope of rollouts that are kept in dataset, a name beside --out. weights
// names the policy's weights. With fresh, no rollout of another run is taken.
func NewScope(dataset string, s play.Settings, run runner.Config, weights string, fresh bool) (Scope, error) {
	settings, err := seal.Canonical(s)
	if err != nil {
		return Scope{}, exit.With(exit.Bug, err)
	}
	own := ""
	if fresh {
		own = run.RunID
	}
	return Scope{dataset, seal.ID(string(settings), fmt.Sprint(run.Seed), weights, own)}, nil
}

// of is the scope of one task's rollouts.
func (s Scope) of(task *record.Task) runner.Scope {
	return runner.Scope{Dataset: s.dataset, ID: seal.ID(s.id, task.Digest)}
}
