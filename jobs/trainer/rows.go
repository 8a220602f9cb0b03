package trainer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// rows is what is kept of an export: what its groups are made of, and the sum of the line
// that each row has in a file.
type rows struct {
	groups map[string]*group
	lines  []line // by the rows' index
	f      found
}

type line struct {
	id     string
	tokens bool // it is in slime.jsonl and verl.parquet, else in messages.jsonl
	sum    [sha256.Size]byte
	seen   bool
}

type group struct {
	index   int64
	first   int64 // least index of its rows
	last    int64
	rows    int64
	members map[int64]*member
	of      int64 // members that it says it has
	task    string
}

type member struct {
	rollout   string
	reward    float64
	advantage *float64
	branches  []int64 // that are there
	of        int64
}

// readRows reads all rows and checks each by itself.
func readRows(ctx context.Context, v *datasets.Version) (*rows, error) {
	all := &rows{groups: map[string]*group{}, lines: make([]line, v.Manifest().Rows)}
	if len(all.lines) == 0 {
		return nil, exit.Inputf("--in %s: has no rows: no group of the round could be trained on; rl-export.json beside it says why (`orchard dataset show`)", v.Location())
	}
	for r, err := range datasets.Rows[record.RLSample](ctx, v) {
		if err != nil {
			return nil, err
		}
		if err := all.add(r); err != nil {
			return nil, exit.Inputf("--in %s: %w", v.Location(), err)
		}
	}
	return all, nil
}

func (all *rows) add(r record.RLSample) error {
	if err := export.CheckRL(r); err != nil {
		return err
	}
	if r.Index < 0 || r.Index >= int64(len(all.lines)) || all.lines[r.Index].seen {
		return fmt.Errorf("row %s has the index %d, which is taken or not below %d", r.ID, r.Index, len(all.lines))
	}
	l := line{id: r.ID, tokens: r.TokenSource == record.TokensServer, seen: true}
	written := export.RLMessagesLine
	if l.tokens {
		written = export.SlimeLine
		all.f.tokens++
	}
	b, err := written(r)
	if err != nil {
		return fmt.Errorf("row %s: %w", r.ID, err)
	}
	l.sum = sha256.Sum256(b)
	all.lines[r.Index] = l
	all.f.rows++
	all.f.trained += r.Trained
	return all.place(r)
}

// place puts a row into its group and compares it with those that are there.
func (all *rows) place(r record.RLSample) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("group %s of task %s: row %s: %s", r.GroupID, r.TaskID, r.ID, fmt.Sprintf(format, a...))
	}
	g := all.groups[r.GroupID]
	if g == nil {
		g = &group{index: r.GroupIndex, first: r.Index, last: r.Index, of: r.Members, task: r.TaskID, members: map[int64]*member{}}
		all.groups[r.GroupID] = g
	}
	g.first, g.last = min(g.first, r.Index), max(g.last, r.Index)
	g.rows++
	m := g.members[r.Member]
	if m == nil {
		m = &member{rollout: r.RolloutID, reward: r.Reward, advantage: r.Advantage, of: r.Branches}
		g.members[r.Member] = m
	}
	switch {
	case r.GroupIndex != g.index || r.Members != g.of || r.TaskID != g.task:
		return bad("says group_index %d, %d members, task %s, and others of it %d, %d, %s", r.GroupIndex, r.Members, r.TaskID, g.index, g.of, g.task)
	case r.Member < 0 || r.Member >= r.Members:
		return bad("is member %d of %d", r.Member, r.Members)
	case m.rollout != r.RolloutID || m.reward != r.Reward || m.of != r.Branches || !same(m.advantage, r.Advantage):
		return bad("differs from the other rows of its trajectory in rollout, reward, advantage or number of branches")
	case slices.Contains(m.branches, r.Branch):
		return bad("is branch %d, which is there already", r.Branch)
	}
	m.branches = append(m.branches, r.Branch)
	return nil
}

func same(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// complete says what is there, or what of a group is not.
func (all *rows) complete() (found, error) {
	f := all.f
	f.groups = int64(len(all.groups))
	indexes := map[int64]bool{}
	for id, g := range all.groups {
		bad := func(format string, a ...any) error {
			return fmt.Errorf("group %s of task %s: %s", id, g.task, fmt.Sprintf(format, a...))
		}
		if g.index < 0 || g.index >= f.groups || indexes[g.index] {
			return f, bad("its group_index %d is taken or not below %d", g.index, f.groups)
		}
		indexes[g.index] = true
		if g.last-g.first+1 != g.rows {
			return f, bad("its rows are not neighbours: %d of them lie from index %d to %d", g.rows, g.first, g.last)
		}
		if int64(len(g.members)) != g.of {
			return f, bad("has %d members, and says it has %d", len(g.members), g.of)
		}
		var sum, most float64
		advised := 0
		for n, m := range g.members {
			if int64(len(m.branches)) != m.of {
				return f, bad("member %d has %d branches, and says it has %d", n, len(m.branches), m.of)
			}
			if m.advantage != nil {
				advised++
				sum, most = sum+*m.advantage, max(most, math.Abs(*m.advantage))
			}
		}
		switch {
		case advised != 0 && advised != len(g.members):
			return f, bad("%d of %d members have an advantage", advised, len(g.members))
		case advised != 0 && most == 0:
			return f, bad("all advantages are 0: there is nothing to learn")
		case advised != 0 && math.Abs(sum) > 1e-6*most*float64(advised):
			return f, bad("its advantages add up to %g and not to 0, though each is a place among the members", sum)
		}
		f.members += g.of
	}
	return f, nil
}
