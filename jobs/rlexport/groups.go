package rlexport

import (
	"context"
	"iter"

	"github.com/rs/zerolog"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// groupExport is a pass over groups.
type groupExport struct {
	Config
	in    inputs
	pass  *runner.Pass[record.RLSample]
	parts gathered
	files files
	sum   groupSummary

	policy string          // of the groups so far
	seen   map[string]bool // policies of all groups
}

// writeGroups writes the samples of all groups, in the order of the inputs and of the
// groups' ids, with one group in memory.
func writeGroups(ctx context.Context, c Config, in inputs, p *runner.Pass[record.RLSample]) (err error) {
	x := &groupExport{Config: c, in: in, pass: p, sum: newGroupSummary(c), seen: map[string]bool{}}
	if err := x.files.open(); err != nil {
		return err
	}
	defer closing(&err, x.files.close)
	parts, err := join(ctx, in, x.wants)
	if err != nil {
		return err
	}
	defer closing(&err, parts.close)
	if err := c.amongst(x.seen, "--in: no group"); err != nil {
		return err
	}
	next, stop := iter.Pull2(parts.rows(ctx))
	defer stop()
	x.parts.next = next
	table, err := x.files.create("verl.parquet")
	if err != nil {
		return err
	}
	if err := arrowio.WriteParquet(table, func(yield func(export.VerlSample, error) bool) { x.all(ctx, yield) }); err != nil {
		return err
	}
	if n := x.sum.Samples.TokenSource[record.TokensNone]; n > 0 {
		zerolog.Ctx(ctx).Warn().Int64("samples", n).Str("file", "messages.jsonl").
			Msg("samples have no token ids, as the model server gave none; they are in the dataset and this file, and not in slime.jsonl or verl.parquet")
	}
	if x.sum.Groups.In > 0 && x.sum.Groups.Out == 0 {
		zerolog.Ctx(ctx).Warn().Interface("dropped", x.sum.Groups.Dropped).Msg("no group is left; a trainer finds nothing in these files")
	}
	if err := x.files.lines("slime.jsonl", nil); err != nil { // it is there also when it is empty
		return err
	}
	if err := x.files.document("rl-export.json", x.sum); err != nil {
		return err
	}
	return x.files.put(ctx, p.PutFile, "slime.jsonl", "verl.parquet", "messages.jsonl", "rl-export.json")
}

// wants reports whether the rollouts of a group are looked at.
func (x *groupExport) wants(g record.Group) (bool, error) {
	x.seen[g.Policy] = true
	if reason := x.aside(g); reason != "" {
		return false, nil
	}
	if x.policy == "" {
		x.policy = g.Policy
	}
	if g.Policy != x.policy {
		return false, exit.Inputf("--in: group %s is of the policy %q, and those before of %q; choose one with --policy", g.GroupID, g.Policy, x.policy)
	}
	return true, nil
}

// aside is why a group is left out without a look at its rollouts; "" when it is not.
func (x *groupExport) aside(g record.Group) string {
	switch {
	case x.Policy != "" && g.Policy != x.Policy:
		return ReasonOtherPolicy
	case !g.Usable:
		return ReasonUnusable
	}
	return ""
}

// all emits the samples of all groups, and yields those with tokens.
func (x *groupExport) all(ctx context.Context, yield func(export.VerlSample, error) bool) {
	n := int64(0)
	for _, v := range x.in.in {
		for g, err := range datasets.Rows[record.Group](ctx, v) {
			var samples []record.RLSample
			if err == nil {
				samples, err = x.group(g, n)
			}
			n++
			if err != nil {
				yield(export.VerlSample{}, err)
				return
			}
			for _, s := range samples {
				if err := x.emit(ctx, s); err != nil {
					yield(export.VerlSample{}, err)
					return
				}
				if s.TokenSource == record.TokensServer && !yield(export.Verl(s), nil) {
					return
				}
			}
		}
	}
}

// group is the samples of group n, numbered; none when it is dropped, and counted. What
// is counted as read is its samples, or what would have been at least one each: members.
func (x *groupExport) group(g record.Group, n int64) (samples []record.RLSample, err error) {
	reason, rows := x.aside(g), int64(len(membersOf(g)))
	if reason == "" {
		parts, err := x.parts.of(n)
		if err != nil {
			return nil, err
		}
		rows = int64(len(parts))
		if samples, reason, err = x.decide(g, parts); err != nil {
			return nil, err
		}
	}
	x.sum.group(reason)
	rows = max(rows, 1)
	x.pass.Read(rows)
	if reason != "" {
		for range rows {
			x.pass.Drop(reason)
		}
		return nil, nil
	}
	for i := range samples {
		samples[i].GroupIndex, samples[i].Index = x.sum.Groups.Out-1, x.sum.Samples.Out
		x.sum.sample(samples[i])
	}
	return samples, nil
}

func (x *groupExport) emit(ctx context.Context, s record.RLSample) error {
	name, line := "slime.jsonl", export.SlimeLine
	if s.TokenSource == record.TokensNone {
		name, line = "messages.jsonl", export.RLMessagesLine
	}
	b, err := line(s)
	if err == nil {
		err = x.files.lines(name, b)
	}
	if err != nil {
		return err
	}
	return x.pass.Emit(ctx, s)
}
