package bar

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/rollout/play"
	"orchard/internal/seal"
)

// prompts is the tasks of a round in the order in which they are tried: that of a hash of
// seed, round and task, so that it is the same on every machine and another in every round.
// Pass-rate datasets among the inputs say which tasks those are.
func (c Config) prompts(ctx context.Context, in []*datasets.Version) ([]*record.Task, error) {
	var tasks, rates []*datasets.Version
	for _, v := range in {
		switch kind := v.Manifest().Schema.Name; kind {
		case "task":
			tasks = append(tasks, v)
		case "pass_rate":
			rates = append(rates, v)
		default:
			return nil, exit.Inputf("--in %s: holds %s rows, neither tasks nor pass rates", v.Location(), kind)
		}
	}
	if len(tasks) == 0 {
		return nil, exit.Inputf("--in: gives pass rates and no tasks; add the task dataset that they were measured on")
	}
	pool, err := pool(ctx, rates)
	if err != nil {
		return nil, err
	}
	var list []*record.Task
	err = play.Tasks(ctx, tasks, func(task *record.Task) error {
		if len(rates) == 0 || pool[task.TaskID] {
			list = append(list, task)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && len(rates) > 0 {
		return nil, exit.Inputf("--in: of the tasks none is kept by the pass rates of %s", rates[0].Location())
	}
	place := make(map[string]string, len(list))
	for _, t := range list {
		place[t.TaskID] = seal.ID(fmt.Sprint(c.Seed), fmt.Sprint(c.Round), t.TaskID)
	}
	slices.SortFunc(list, func(a, b *record.Task) int { return strings.Compare(place[a.TaskID], place[b.TaskID]) })
	if c.Prompts > 0 {
		list = list[:min(c.Prompts, len(list))]
	}
	return list, nil
}

// pool is the tasks that pass-rate datasets keep. A task with two answers is refused.
func pool(ctx context.Context, rates []*datasets.Version) (map[string]bool, error) {
	keep := map[string]bool{}
	for _, v := range rates {
		for r, err := range datasets.Rows[record.PassRate](ctx, v) {
			if err != nil {
				return nil, err
			}
			yes := r.Decision == record.PoolKeep
			if was, ok := keep[r.TaskID]; ok && was != yes {
				return nil, exit.Inputf("--in %s: task %s is kept by one pass rate and not by another; give the one of this policy", v.Location(), r.TaskID)
			}
			keep[r.TaskID] = yes
		}
	}
	return keep, nil
}
