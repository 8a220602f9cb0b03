package rlexport

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// wanted is a member of a group whose rollout is looked for.
type wanted struct {
	ID        string `json:"id"` // rollout and place: sorted like the rollouts
	RolloutID string `json:"rollout_id"`
	GroupID   string `json:"group_id"`
	Place     string `json:"place"` // of the member: see place
}

func (r wanted) Key() string         { return r.ID }
func (wanted) Schema() (string, int) { return "wanted", 1 }

// part is a row of a member, before its group is looked at.
type part struct {
	ID     string          `json:"id"` // place of the member, and branch
	Sample record.RLSample `json:"sample"`
	Reason string          `json:"reason"` // why the member cannot be trained on; "" when it can
	Reward *float64        `json:"reward"`
}

func (r part) Key() string         { return r.ID }
func (part) Schema() (string, int) { return "part", 1 }

// place sorts members by group, counted over all inputs, and by their order in it.
func place(group, member int64) string { return fmt.Sprintf("%016d/%06d", group, member) }

// join gives the parts of all groups that want says are looked at, by place. The rollouts,
// which are sorted by an id that says nothing of groups, are read once, and what a group
// needs of them is sorted on disk.
func join(ctx context.Context, in inputs, want func(record.Group) (bool, error)) (_ *spool[part], err error) {
	parts, err := newSpool[part]()
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for i, v := range in.in {
		if n, err = joinOne(ctx, v, in.rollouts[i], n, want, parts); err != nil {
			return nil, errors.Join(err, parts.close())
		}
	}
	return parts, nil
}

// joinOne is join for one group dataset, whose first group has the number n; it returns
// the number of the group after its last.
func joinOne(ctx context.Context, groups, rollouts *datasets.Version, n int64, want func(record.Group) (bool, error), parts *spool[part]) (_ int64, err error) {
	members, err := newSpool[wanted]()
	if err != nil {
		return n, err
	}
	defer closing(&err, members.close)
	for g, err := range datasets.Rows[record.Group](ctx, groups) {
		if err != nil {
			return n, err
		}
		look, err := want(g)
		if err != nil {
			return n, err
		}
		if look {
			for m, d := range membersOf(g) {
				at := place(n, int64(m))
				if err := members.add(ctx, wanted{ID: d.RolloutID + "\x00" + at, RolloutID: d.RolloutID, GroupID: g.GroupID, Place: at}); err != nil {
					return n, err
				}
			}
		}
		n++
	}
	played := datasets.Seek[record.Rollout](ctx, rollouts, datasets.InFlight(32<<20), datasets.WithColumns(columns...))
	defer played.Close()
	for m, err := range members.rows(ctx) {
		if err != nil {
			return n, err
		}
		r, ok, err := played.Row(m.RolloutID)
		if err != nil {
			return n, err
		}
		if !ok {
			return n, exit.Inputf("group %s: its member, rollout %s, is not in %s; give the dataset that has it with --rollouts", m.GroupID, m.RolloutID, rollouts.Location())
		}
		if err := split(ctx, r, m.Place, parts); err != nil {
			return n, err
		}
	}
	return n, nil
}

// membersOf is the draws that were chosen, by index.
func membersOf(g record.Group) (members []record.Draw) {
	for _, d := range g.Draws {
		if d.Member {
			members = append(members, d)
		}
	}
	return members
}

// columns is what is read of a rollout; of what was observed and of the tests nothing is.
var columns = []string{
	"rollout_id", "task_id", "source", "repo", "language", "policy", "harness", "index",
	"trajectory.exit_status", "trajectory.tools", "trajectory.messages",
	"trajectory.steps.prompt_token_ids", "trajectory.steps.completion_token_ids", "trajectory.steps.log_probs", "trajectory.steps.weight_version",
	"trajectory.steps.prompt_tokens", "trajectory.steps.completion_tokens",
	"verdict.outcome", "verdict.reward", "verdict.grader", "verdict.parser",
}

// split adds the rows of a rollout.
func split(ctx context.Context, r record.Rollout, at string, parts *spool[part]) error {
	rows, err := export.RL(r)
	reason := ""
	for _, known := range []error{export.ErrNothingTrained, export.ErrBadLogProb} {
		if errors.Is(err, known) {
			reason, err = known.Error(), nil
		}
	}
	if err == nil && reason == "" {
		if err := export.CheckRLSource(rows, r); err != nil {
			return exit.With(exit.Bug, err)
		}
	}
	if err != nil {
		return exit.With(exit.Input, err)
	}
	for _, row := range rows {
		p := part{ID: fmt.Sprintf("%s/%06d", at, row.Branch), Sample: row, Reason: reason, Reward: r.Verdict.Reward}
		if err := parts.add(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// gathered reads the parts of one group after the other.
type gathered struct {
	next func() (part, error, bool)
	last *part // read, and of a later group
}

// of is the parts of group n; groups are asked for in their order.
func (g *gathered) of(n int64) (list []part, err error) {
	prefix := fmt.Sprintf("%016d/", n)
	for {
		if g.last == nil {
			p, err, more := g.next()
			if err != nil || !more {
				return list, err
			}
			g.last = &p
		}
		if !strings.HasPrefix(g.last.ID, prefix) {
			return list, nil
		}
		list = append(list, *g.last)
		g.last = nil
	}
}
