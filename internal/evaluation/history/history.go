// Package history reads the evaluations that a benchmark has had: the versions of one
// dataset of evaluations, each of them a run. It says which of them can be compared, which
// came before another, and whether what changed is a step back.
//
// It reads the store and computes nothing anew; the numbers are those of each evaluation.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Run is one evaluation.
type Run struct {
	ID       string    // run id
	At       time.Time // when its rollouts were all there
	URI      string    // of the evaluation
	Rollouts string    // URI of its rollouts
	Systems  []record.Evaluation

	rows  json.RawMessage // what decided the rollouts
	seed  int64
	tasks []string // digests
}

// Name is the name of the dataset of evaluations beside one of rollouts.
func Name(rollouts string) string { return rollouts + "-evaluation" }

// Of reads one evaluation.
func Of(ctx context.Context, v *datasets.Version) (Run, error) {
	m := v.Manifest()
	bad := func(format string, a ...any) error {
		return exit.Inputf("%s: %s; `orchard evaluate` makes a dataset of evaluations, <out>-evaluation", v.Location(), fmt.Sprintf(format, a...))
	}
	if m.Schema.Name != "evaluation" || len(m.Inputs) == 0 {
		return Run{}, bad("holds %s rows, not evaluations", m.Schema.Name)
	}
	var config struct {
		Rows     json.RawMessage `json:"rows"`
		Baseline bool            `json:"baseline"`
	}
	if err := json.Unmarshal(m.Stage.Config, &config); err != nil {
		return Run{}, bad("its settings cannot be read: %v", err)
	}
	rollouts, err := datasets.OpenIn(ctx, v.Store(), m.Inputs[0].Name, m.Inputs[0].Digest)
	if err != nil {
		return Run{}, fmt.Errorf("rollouts of %s: %w", v.Location(), err)
	}
	r := Run{ID: rollouts.Manifest().Stage.RunID, At: rollouts.Manifest().Run.Committed, URI: v.Location().String(), Rollouts: rollouts.Location().String(), rows: config.Rows, seed: m.Stage.Seed}
	for _, in := range m.Inputs[1 : len(m.Inputs)-count(config.Baseline)] {
		r.tasks = append(r.tasks, in.Digest)
	}
	for row, err := range datasets.Rows[record.Evaluation](ctx, v) {
		if err != nil {
			return Run{}, err
		}
		r.Systems = append(r.Systems, row)
	}
	return r, nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// All is every evaluation of a dataset of evaluations, the oldest first. Of several of the
// same rollouts, as with another --pass-k, it is the newest.
func All(ctx context.Context, store objstore.Store, name string) ([]Run, error) {
	newest := map[string]*datasets.Version{} // by the rollouts' digest
	for v, err := range datasets.Versions(ctx, store, name) {
		if err != nil {
			return nil, err
		}
		m := v.Manifest()
		if m.Schema.Name != "evaluation" || len(m.Inputs) == 0 {
			continue
		}
		old := newest[m.Inputs[0].Digest]
		if old == nil || cmp.Or(m.Run.Committed.Compare(old.Manifest().Run.Committed), cmp.Compare(v.Digest(), old.Digest())) > 0 {
			newest[m.Inputs[0].Digest] = v
		}
	}
	var list []Run
	for _, v := range newest {
		r, err := Of(ctx, v)
		if errors.Is(err, datasets.ErrNotFound) {
			continue // its rollouts were removed, so that nothing can be compared with it
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Run) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.URI, b.URI)) })
	return list, nil
}

// Same reports whether two runs played the same tasks with the same settings and seed.
func (r Run) Same(o Run) bool {
	return bytes.Equal(r.rows, o.rows) && r.seed == o.seed && slices.Equal(r.tasks, o.tasks)
}

// Headline reports whether every system of the run has one.
func (r Run) Headline() bool {
	return len(r.Systems) > 0 && !slices.ContainsFunc(r.Systems, func(e record.Evaluation) bool { return e.Rate == nil })
}

// Before is the newest run of list, which is sorted, that can be compared with the rollouts
// of an evaluation that is not there yet: of another run id, the same in everything else,
// whole before those were, and with a headline. Which one that is does not change when
// runs are added later.
func Before(list []Run, rollouts datasets.Manifest) (Run, bool) {
	var tasks []string
	for _, in := range rollouts.Inputs {
		tasks = append(tasks, in.Digest)
	}
	me := Run{rows: rollouts.Stage.Config, seed: rollouts.Stage.Seed, tasks: tasks}
	for _, r := range slices.Backward(list) {
		if r.ID != rollouts.Stage.RunID && r.At.Before(rollouts.Run.Committed) && r.Headline() && r.Same(me) {
			return r, true
		}
	}
	return Run{}, false
}

// Regressed reports whether a system is worse than its baseline: fewer tasks are resolved
// than were, and the exact McNemar test finds that with a p below alpha.
func Regressed(e record.Evaluation, alpha float64) bool {
	return e.McNemarP != nil && *e.McNemarP < alpha && *e.NewlyFailed > *e.NewlyResolved && (e.Difference == nil || *e.Difference < 0)
}

// Regression reports whether any system of the run is; nil where no system was compared
// with a baseline by a test.
func (r Run) Regression(alpha float64) *bool {
	var tested, worse bool
	for _, e := range r.Systems {
		tested = tested || e.McNemarP != nil
		worse = worse || Regressed(e, alpha)
	}
	if !tested {
		return nil
	}
	return &worse
}
