package sftexport

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Reasons for leaving out a rollout that is not resolved, with --credit. A credit row
// that says nothing to train has its status as the reason.
const (
	ReasonNoCredit = "no_credit" // there is no credit row of it
	ReasonNoRise   = "no_rise"   // there is, and its value rises nowhere
)

// credits is what a credit dataset says of rollouts, by their ids. Nil is no dataset.
type credits map[string]credited

type credited struct {
	status     string
	trajectory string // sum
	steps      []record.Segment
}

// credit opens --credit and makes it the last of the inputs, so that it is part of the
// key and of the lineage; nil when there is none.
func (c *Config) credit(ctx context.Context, open datasets.Opener) (*datasets.Version, error) {
	if c.Credit == "" || c.Mode == runner.ModeCheck { // which may be before there are datasets
		return nil, nil
	}
	v, err := runner.OpenAs(ctx, open, "credit", c.Credit, "credit", "credit")
	if err != nil {
		return nil, err
	}
	c.In = append(append([]string{}, c.In...), v.Location().String())
	return v, nil
}

// segments reads what a credit dataset says.
func segments(ctx context.Context, v *datasets.Version) (credits, error) {
	if v == nil {
		return nil, nil
	}
	known := credits{}
	for row, err := range datasets.Rows[record.Credit](ctx, v, datasets.WithColumns("rollout_id", "status", "trajectory_sha256", "segments")) {
		if err != nil {
			return nil, fmt.Errorf("--credit: %w", err)
		}
		known[row.RolloutID] = credited{row.Status, row.Trajectory, row.Segments}
	}
	return known, nil
}

// of is the steps of a rollout that are to be trained, nil for all of them, or the
// reason why none is.
func (k credits) of(r record.Rollout) (steps []record.Segment, reason string, err error) {
	if k == nil || r.Verdict.Outcome == record.Resolved {
		return nil, "", nil
	}
	c, ok := k[r.RolloutID]
	if !ok {
		return nil, ReasonNoCredit, nil
	}
	sum, err := export.TrajectorySum(r)
	switch {
	case err != nil:
		return nil, "", err
	case sum != c.trajectory:
		return nil, "", exit.Inputf("--credit: rollout %s: the credit is of another trajectory (%.12s) than the rollout's (%.12s); make it of these rollouts", r.RolloutID, c.trajectory, sum)
	case c.status != record.CreditAnnotated && c.status != record.CreditMeasured:
		return nil, c.status, nil
	case len(c.steps) == 0:
		return nil, ReasonNoRise, nil
	}
	return c.steps, "", nil
}
