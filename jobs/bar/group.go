package bar

import (
	"context"
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/bar"
	"orchard/internal/rollout/draw"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// round draws the groups of one round.
type round struct {
	Config
	strategy bar.Strategy
	drawer   *draw.Drawer
}

// prompt is a task and its place in the round.
type prompt struct {
	play.Unit
	place int64
}

func (r round) id(p prompt) string {
	return seal.ID(p.Task.TaskID, p.Player.Policy, p.Player.Harness.Name(), r.Weights, fmt.Sprint(r.Round))
}

// base is the index of the round's first rollout of a task. Those of two rounds are never the
// same, whatever their strategies: none draws more than mostDraws.
func (r round) base() int64 { return r.Round * mostDraws }

// look decides by the draws that have ended.
func (r round) look(ended []record.Draw) (bar.Decision, error) {
	samples := make([]bar.Sample, len(ended))
	for i, d := range ended {
		samples[i] = sample(d, r.base())
	}
	return r.strategy.Next(samples)
}

// group draws until the strategy has decided.
func (r round) group(ctx context.Context, p prompt, t runner.Tools) (record.Group, error) {
	g := record.Group{
		GroupID: r.id(p), TaskID: p.Task.TaskID, Source: p.Task.Source, Repo: p.Task.Repo, Language: p.Task.Language,
		Policy: p.Player.Policy, Harness: p.Player.Harness.Name(), WeightVersion: r.Weights,
		Round: r.Round, Place: p.place, Strategy: r.strategy.String(), Draws: []record.Draw{},
	}
	ended, used, err := r.drawer.Draw(ctx, p.Unit, t, func(ended []record.Draw) (need []int64, err error) {
		d, err := r.look(ended)
		for _, index := range d.Need {
			need = append(need, r.base()+int64(index))
		}
		return need, err
	})
	if err != nil {
		return g, err
	}
	d, err := r.look(ended)
	if err != nil {
		return g, err
	}
	if d.Group == nil && (d.Reason == bar.NoneUsable || d.Reason == bar.FewUsable) {
		if err := draw.Troubled(ended); err != nil {
			return g, err
		}
	}
	g.Draws, g.Usage, g.Reason = ended, used, string(d.Reason)
	if d.Group != nil {
		g.Kind, g.Usable = string(d.Group.Kind), true
		g.Members, g.Passed = int64(len(d.Group.Members)), int64(len(d.Group.Positives))
		for i := range g.Draws {
			g.Draws[i].Member = slices.Contains(d.Group.Members, int(g.Draws[i].Index-r.base()))
		}
	}
	return g, nil
}
