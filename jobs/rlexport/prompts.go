package rlexport

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"unicode/utf8"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Reasons for leaving a task out.
const (
	ReasonNoPassRate      = "no_pass_rate"      // --passrate says nothing of it
	ReasonPassRateDrop    = "pass_rate_drop"    // it is too easy or too hard
	ReasonPassRateUnknown = "pass_rate_unknown" // too few of its draws have a reward
	ReasonNoStatement     = "no_statement"      // there is nothing to ask
	ReasonGoal            = "goal_task"         // the rows describe no environment but a repository with tests
	ReasonPatchNoText     = "patch_not_text"    // a patch is no UTF-8, which no file for trainers can hold
)

// promptSummary is rl-export.json of prompts.
type promptSummary struct {
	Settings promptSettings   `json:"settings"`
	PassRate bool             `json:"pass_rate"` // there was a pass-rate dataset
	In       int64            `json:"in"`
	Out      int64            `json:"out"`
	Dropped  map[string]int64 `json:"dropped"`
}

type promptExport struct {
	Config
	in    inputs
	pass  *runner.Pass[record.RLPrompt]
	rates *spool[estimate]
	files files
	sum   promptSummary
}

// estimate is a pass rate, sorted by task like the tasks it is read beside.
type estimate struct {
	ID   string          `json:"id"` // task and estimate
	Rate record.PassRate `json:"rate"`
}

func (r estimate) Key() string         { return r.ID }
func (estimate) Schema() (string, int) { return "estimate", 1 }

// writePrompts writes a prompt for each task, in the order of the inputs and of the
// tasks' ids.
func writePrompts(ctx context.Context, c Config, in inputs, p *runner.Pass[record.RLPrompt]) (err error) {
	x := &promptExport{Config: c, in: in, pass: p}
	x.sum = promptSummary{Settings: c.promptSettings(), PassRate: in.passRate != nil, Dropped: map[string]int64{}}
	if err := x.files.open(); err != nil {
		return err
	}
	defer closing(&err, x.files.close)
	for _, name := range []string{"prompts-slime.jsonl", "prompts-nemo.jsonl"} { // there also when they are empty
		if err := x.files.lines(name, nil); err != nil {
			return err
		}
	}
	if x.rates, err = newSpool[estimate](); err != nil {
		return err
	}
	defer closing(&err, x.rates.close)
	if err := x.estimates(ctx); err != nil {
		return err
	}
	table, err := x.files.create("prompts-verl.parquet")
	if err != nil {
		return err
	}
	err = arrowio.WriteParquet(table, func(yield func(export.VerlPromptRow, error) bool) {
		for _, v := range in.in {
			if !x.tasks(ctx, v, yield) {
				return
			}
		}
	})
	if err == nil {
		err = x.files.document("rl-export.json", x.sum)
	}
	if err != nil {
		return err
	}
	return x.files.put(ctx, p.PutFile, "prompts-slime.jsonl", "prompts-verl.parquet", "prompts-nemo.jsonl", "rl-export.json")
}

// estimates sorts the pass rates by task.
func (x *promptExport) estimates(ctx context.Context) error {
	if x.in.passRate == nil {
		return nil
	}
	seen := map[string]bool{}
	for r, err := range datasets.Rows[record.PassRate](ctx, x.in.passRate) {
		seen[r.Policy] = true
		if err == nil && (x.Policy == "" || r.Policy == x.Policy) {
			err = x.rates.add(ctx, estimate{r.TaskID + "\x00" + r.PassRateID, r})
		}
		if err != nil {
			return err
		}
	}
	return x.amongst(seen, "--passrate: no pass rate")
}

// tasks yields the prompts of one dataset; it reports whether to go on with the next.
func (x *promptExport) tasks(ctx context.Context, v *datasets.Version, yield func(export.VerlPromptRow, error) bool) bool {
	next, stop := iter.Pull2(x.rates.rows(ctx))
	defer stop()
	e, err, more := next()
	for t, terr := range datasets.Rows[record.Task](ctx, v) {
		err = cmp.Or(err, terr)
		var of []record.PassRate
		for more && err == nil && e.Rate.TaskID <= t.TaskID {
			if e.Rate.TaskID == t.TaskID {
				of = append(of, e.Rate)
			}
			e, err, more = next()
		}
		var row record.RLPrompt
		reason := ""
		if err == nil {
			row, reason, err = x.prompt(ctx, v, t, of)
		}
		if err == nil {
			x.count(reason)
			if reason != "" {
				continue
			}
			row.Index = x.sum.Out - 1
			err = x.emit(ctx, row)
		}
		if !yield(export.VerlPromptOf(row), err) || err != nil {
			return false
		}
	}
	return true
}

func (x *promptExport) count(reason string) {
	x.pass.Read(1)
	x.sum.In++
	if reason == "" {
		x.sum.Out++
		return
	}
	x.sum.Dropped[reason]++
	x.pass.Drop(reason)
}

// prompt is the prompt of a task, or the reason why it has none.
func (x *promptExport) prompt(ctx context.Context, v *datasets.Version, t record.Task, rates []record.PassRate) (row record.RLPrompt, reason string, err error) {
	var rate *record.PassRate
	if x.in.passRate != nil {
		switch {
		case len(rates) == 0:
			return row, ReasonNoPassRate, nil
		case len(rates) > 1:
			a, b := rates[0], rates[1]
			return row, "", exit.Inputf("--passrate: task %s has two estimates, of policy %q in %q at %q and of %q in %q at %q; choose one policy with --policy, or give a dataset with one estimate of each task",
				t.TaskID, a.Policy, a.Harness, a.WeightVersion, b.Policy, b.Harness, b.WeightVersion)
		}
		rate = &rates[0]
		switch {
		case rate.Decision == record.PoolDrop:
			return row, ReasonPassRateDrop, nil
		case rate.Decision != record.PoolKeep:
			return row, ReasonPassRateUnknown, nil
		}
	}
	switch {
	case t.Goal != nil:
		return row, ReasonGoal, nil
	case t.Statement == "":
		return row, ReasonNoStatement, nil
	}
	texts := []record.Text{t.TestPatch}
	if !x.NoLabel {
		texts = append(texts, t.GoldPatch)
	}
	patches := make([]string, 2) // test, gold
	for i, text := range texts {
		b, err := datasets.TextBytes(ctx, v.Store(), text)
		if err != nil {
			return row, "", fmt.Errorf("%s: task %s: its patch: %w", v.Location(), t.TaskID, err)
		}
		if !utf8.Valid(b) {
			return row, ReasonPatchNoText, nil
		}
		patches[i] = string(b)
	}
	row, err = export.RLPrompt(t, patches[1], patches[0], rate)
	return row, "", err
}

func (x *promptExport) emit(ctx context.Context, row record.RLPrompt) error {
	label := x.LabelKey
	if x.NoLabel {
		label = ""
	}
	slime, err := export.SlimePromptLine(row, label)
	if err == nil {
		err = x.files.lines("prompts-slime.jsonl", slime)
	}
	if err != nil {
		return err
	}
	nemo, err := export.NemoPromptLine(row)
	if err == nil {
		err = x.files.lines("prompts-nemo.jsonl", nemo)
	}
	if err != nil {
		return err
	}
	return x.pass.Emit(ctx, row)
}
