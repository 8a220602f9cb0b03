package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/runner"
	"orchard/jobs/filter/contamination"
	"orchard/jobs/filter/funnel"
	"orchard/jobs/filter/rules"
)

// sieve is the plan with what its steps compare with.
type sieve struct {
	*plan
	index     *contamination.Index
	meanings  *contamination.Meanings // nil unless a step makes statement_cosine
	standings map[string]standing
	funnel    *funnel.Funnel
	counts    []*funnel.Step // of the steps
	patches   bool           // somebody asks for patches
}

// work reads the tasks once, and once more before that for every rule that counts.
func work(ctx context.Context, pass *runner.Pass[record.Task], in []*datasets.Version, with *beside, p *plan, meanings *contamination.Meanings) (err error) {
	for _, v := range in {
		if err := runner.Want(v, "in", "task", "import"); err != nil {
			return err
		}
	}
	s := &sieve{plan: p, meanings: meanings, funnel: funnel.New("What was left out")}
	s.patches = p.program.Uses("patch") || p.program.Uses("test_patch") || len(p.checks) > 0
	if s.index, err = with.index(ctx, p, meanings); err != nil {
		return err
	}
	if s.standings, err = with.admitted(ctx); err != nil {
		return err
	}
	for _, last := range p.counting() {
		for g, err := range s.sifted(ctx, in, last) {
			if err == nil && g.drop == nil {
				err = p.steps[last].rule.Tally(g.row)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, step := range p.steps {
		s.counts = append(s.counts, s.funnel.Add(step.name, step.why))
	}
	out, err := newFiles(s.index != nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	for g, err := range s.sifted(ctx, in, len(p.steps)) {
		if err == nil {
			err = s.one(ctx, pass, out, g)
		}
		if err != nil {
			return err
		}
	}
	return out.put(ctx, pass, s.funnel)
}

// given is a task as it was read, and as rules see it.
type given struct {
	task record.Task
	row  *rules.Row
}

// given is all tasks, one input after the other.
func (s *sieve) given(ctx context.Context, in []*datasets.Version) iter.Seq2[given, error] {
	return func(yield func(given, error) bool) {
		for _, v := range in {
			for t, err := range datasets.Rows[record.Task](ctx, v) {
				g, seen := given{task: t}, t
				if err == nil && s.patches {
					err = whole(ctx, v, &seen)
				}
				g.row = s.program.Row(&seen)
				if !yield(g, err) || err != nil {
					return
				}
			}
		}
	}
}

// whole puts the exact patches into a task that has them in blobs.
func whole(ctx context.Context, v *datasets.Version, t *record.Task) error {
	for _, text := range []*record.Text{&t.GoldPatch, &t.TestPatch} {
		if text.Blob == "" {
			continue
		}
		b, err := datasets.TextBytes(ctx, v.Store(), *text)
		if err != nil {
			return fmt.Errorf("%s: task %s: its patch: %w", v.Location(), t.TaskID, err)
		}
		text.Value = strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return nil
}

// one keeps a task that was sifted or drops it, and counts and lists it.
func (s *sieve) one(ctx context.Context, pass *runner.Pass[record.Task], out *files, g *sifting) error {
	pass.Read(1)
	s.funnel.In++
	for _, step := range s.counts[:g.at] {
		step.Pass()
	}
	for _, i := range g.unknown {
		s.counts[i].Unknown++
	}
	if g.drop == nil {
		s.funnel.Out++
		return pass.Emit(ctx, g.task)
	}
	s.counts[g.at].Remove(g.drop.reason)
	pass.Drop(g.drop.reason)
	if err := out.drop(dropped{g.task.TaskID, s.steps[g.at].name, g.drop.reason, g.drop.detail}); err != nil {
		return err
	}
	for _, m := range g.found {
		if s.steps[g.at].checks != nil && slices.ContainsFunc(s.steps, func(step *step) bool { return step.about(m) }) {
			if err := out.found(m); err != nil {
				return err
			}
		}
	}
	return nil
}
