package dedup

import (
	"context"
	"fmt"
	"slices"

	"orchard/datasets"
	"orchard/datasets/columns"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// entry is what is kept of a task in memory while all are decided.
type entry struct {
	id    string
	text  string
	order []value
	from  *datasets.Version
	sum   string // of what the task says
}

// read takes texts and order out of all tasks, and sorts them. A task that is in two
// inputs with the same content is one.
func read(ctx context.Context, c Config, in []*datasets.Version) ([]*entry, error) {
	text, err := textOf(c.Column)
	if err != nil {
		return nil, err
	}
	terms, err := parseOrder(c.Order)
	if err != nil {
		return nil, err
	}
	var tasks []*entry
	byID := map[string]*entry{}
	for _, v := range in {
		if err := runner.Want(v, "in", "task", "import"); err != nil {
			return nil, err
		}
		for t, err := range datasets.Rows[record.Task](ctx, v) {
			if err != nil {
				return nil, err
			}
			e, err := take(ctx, v, &t, text, terms)
			if err != nil {
				return nil, exit.Inputf("--in %s: task %s: %w", v.Location(), t.TaskID, err)
			}
			other, there := byID[e.id]
			if !there {
				byID[e.id] = e
				tasks = append(tasks, e)
			} else if other.sum != e.sum {
				return nil, exit.Inputf("--in %s: task %s: is in %s already, with other content; give one of them another id, or leave one input out", v.Location(), e.id, other.from.Location())
			}
		}
	}
	for i, t := range terms {
		if len(tasks) > 0 && t.needsRaw && !slices.ContainsFunc(tasks, func(e *entry) bool { return e.order[i].known }) {
			return nil, exit.Inputf("--order: no task has a column %s", t.name)
		}
	}
	if len(tasks) > 0 && text.needsRaw && !slices.ContainsFunc(tasks, func(e *entry) bool { return e.text != "" }) {
		return nil, exit.Inputf("--column: no task has a column %s", c.Column)
	}
	slices.SortFunc(tasks, func(a, b *entry) int { return compare(terms, a, b) })
	return tasks, nil
}

func take(ctx context.Context, v *datasets.Version, t *record.Task, text texter, terms []term) (*entry, error) {
	e := &entry{id: t.TaskID, from: v, order: make([]value, len(terms))}
	var row map[string]any
	var err error
	if text.needsRaw || slices.ContainsFunc(terms, func(t term) bool { return t.needsRaw }) {
		if row, err = raw(t); err != nil {
			return nil, err
		}
	}
	c := columns.Task(t)
	if e.text, err = text.take(ctx, v, t, &c, row); err != nil {
		return nil, err
	}
	for i, term := range terms {
		held, ok := term.take(&c, row), true
		if e.order[i], ok = valueOf(held); !ok {
			return nil, fmt.Errorf("--order %s: holds %v, which has no order", term.name, held)
		}
	}
	if e.sum = t.Digest; e.sum == "" {
		e.sum, err = seal.Sum(t)
	}
	return e, err
}
