package report

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
)

// curve is what a credit dataset says of a trajectory, as the viewer draws it. Lists are
// never null.
type curve struct {
	Title    string           `json:"title"`
	Moment   string           `json:"moment"` // that the keys speak of
	Values   []*float64       `json:"values"` // of the states
	Keys     []key            `json:"keys"`
	Segments []record.Segment `json:"segments"` // steps that are trained
}

type key struct {
	Step  int64   `json:"step"` // counted from 0, as in the rows
	State int64   `json:"state"`
	P     float64 `json:"p"`
	Why   string  `json:"why"`
}

const mostWhy = 1 << 10

func drawn(c record.Credit) curve {
	out := curve{
		Title: fmt.Sprintf("value of each state, by %s: %s; %d of %d steps are trained", c.Method, c.Status, len(c.Trained), c.Steps), Moment: c.Moment,
		Values: append([]*float64{}, c.Values...), Keys: []key{}, Segments: append([]record.Segment{}, c.Segments...),
	}
	for _, k := range c.Keys {
		state := k.Step
		if c.Moment == "after" {
			state++
		}
		out.Keys = append(out.Keys, key{k.Step, state, k.Probability, clip(k.Reasoning, mostWhy)})
	}
	return out
}

// size is about how many bytes c takes in a script.
func (c curve) size() int {
	n := 100 + len(c.Title) + 20*len(c.Values) + 30*len(c.Segments)
	for _, k := range c.Keys {
		n += 60 + len(k.Why)
	}
	return n
}

// valued is the credit datasets among the inputs, read beside the rollouts.
type valued []*datasets.Seeker[record.Credit]

// credits tells credit datasets from the other inputs.
func credits(ctx context.Context, inputs []*datasets.Version) (v valued, others []*datasets.Version) {
	for _, in := range inputs {
		if in.Manifest().Schema.Name == "credit" {
			v = append(v, datasets.Seek[record.Credit](ctx, in))
		} else {
			others = append(others, in)
		}
	}
	return v, others
}

func (v valued) close() {
	for _, rows := range v {
		rows.Close()
	}
}

// of is the curves of a rollout, whose id comes after that of the one before. A credit of
// another trajectory with the same id is none.
func (v valued) of(r record.Rollout) ([]curve, error) {
	list := []curve{}
	for _, rows := range v {
		c, ok, err := rows.Row(r.RolloutID)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		sum, err := export.TrajectorySum(r)
		if err != nil {
			return nil, err
		}
		if sum == c.Trajectory {
			list = append(list, drawn(c))
		}
	}
	return list, nil
}
