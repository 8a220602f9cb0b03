package filter

import (
	"context"
	"iter"
	"slices"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/jobs/filter/contamination"
)

// sifting is a task on its way through the steps.
type sifting struct {
	given
	at      int   // the step that it is at: the one that dropped it, or the end
	drop    *drop // nil: none did
	unknown []int // steps that did not know

	matched bool // found and unsure are there
	found   []contamination.Match
	unsure  []contamination.Unknown
}

// What is compared by embeddings goes through the steps in blocks, so that texts share
// requests: of this many tasks, or bytes of their texts, whichever is reached first.
const (
	blockTasks = 512
	blockBytes = 64 << 20
)

// sifted is all tasks after the steps before end, in the order read.
func (s *sieve) sifted(ctx context.Context, in []*datasets.Version, end int) iter.Seq2[*sifting, error] {
	return func(yield func(*sifting, error) bool) {
		var block []*sifting
		size := 0
		flush := func() bool {
			if err := s.sift(ctx, block, end); err != nil {
				yield(nil, err)
				return false
			}
			for _, g := range block {
				if !yield(g, nil) {
					return false
				}
			}
			block, size = block[:0], 0
			return true
		}
		for g, err := range s.given(ctx, in) {
			if err != nil {
				yield(nil, err)
				return
			}
			t := g.row.Task
			block, size = append(block, &sifting{given: g}), size+len(t.Statement)+len(t.Raw)+len(t.GoldPatch.Value)+len(t.TestPatch.Value)
			if full := s.meanings == nil || len(block) == blockTasks || size >= blockBytes; full && !flush() {
				return
			}
		}
		flush()
	}
}

// sift puts a block through the steps before end. Those tasks that come to evaluation sets
// are compared with them together, and no others are.
func (s *sieve) sift(ctx context.Context, block []*sifting, end int) error {
	var waiting []*sifting
	for _, g := range block {
		if err := s.advance(g, end); err != nil {
			return err
		}
		if g.drop == nil && g.at < end {
			waiting = append(waiting, g)
		}
	}
	if err := s.match(ctx, waiting); err != nil {
		return err
	}
	for _, g := range waiting {
		if err := s.advance(g, end); err != nil {
			return err
		}
	}
	return nil
}

// match compares tasks with evaluation sets.
func (s *sieve) match(ctx context.Context, list []*sifting) error {
	tasks := make([]*record.Task, len(list))
	for i, g := range list {
		g.found, g.unsure = s.index.Match(g.row.Task, s.checks)
		g.matched, tasks[i] = true, g.row.Task
	}
	if s.meanings == nil || len(list) == 0 {
		return nil
	}
	answers, err := s.meanings.Match(ctx, tasks)
	if err != nil {
		return err
	}
	for i, g := range list {
		g.found = contamination.Merge(g.found, answers[i].Found)
		g.unsure = append(g.unsure, answers[i].Unknown...)
	}
	return nil
}

// advance puts a task through the steps before end: until one drops it, or one needs it to be
// compared with evaluation sets and it was not yet.
func (s *sieve) advance(g *sifting, end int) error {
	for ; g.at < end; g.at++ {
		step := s.steps[g.at]
		switch {
		case step.admission:
			g.drop = standingDrop(s.standings, g.task.TaskID)
		case step.rule != nil:
			said, err := step.rule.Decide(g.row)
			if err != nil {
				return err
			}
			if said.Unknown {
				g.unknown = append(g.unknown, g.at)
			}
			g.drop = ruleDrop(step.name, said)
		case !g.matched:
			return nil
		default:
			if slices.ContainsFunc(g.unsure, func(u contamination.Unknown) bool { return slices.Contains(step.checks, u.Check) }) {
				g.unknown = append(g.unknown, g.at)
			}
			g.drop = step.matchDrop(g.found)
		}
		if g.drop != nil {
			return nil
		}
	}
	return nil
}
