package dedup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/cosine"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// Reasons for leaving a task out.
const (
	ReasonExact     = "exact_duplicate"    // its text, in normal form, is that of a task that stays
	ReasonNear      = "near_duplicate"     // most of its shingles are
	ReasonSemantic  = "semantic_duplicate" // its embedding is as close as tau
	ReasonSame      = "same_row"           // the very same row is in an input before
	ReasonZero      = "zero_vector"        // its embedding is zero, which is close to nothing
	ReasonNotFinite = "vector_not_finite"  // its embedding holds NaN or an infinity
)

var reasons = map[string]string{MethodExact: ReasonExact, MethodMinHash: ReasonNear, MethodSemantic: ReasonSemantic}

// removed is a line of removed.jsonl.
type removed struct {
	TaskID string   `json:"task_id"`
	Method string   `json:"method"`
	Reason string   `json:"reason"`
	Kept   *string  `json:"kept"`  // the task of the output that stands for it; null when its vector is unfit
	Score  *float64 `json:"score"` // of the two: 1, Jaccard similarity, cosine
}

// funnel is funnel.json.
type funnel struct {
	In      int64            `json:"in"`
	Out     int64            `json:"out"`
	Removed map[string]int64 `json:"removed"` // by reason
	// NotCompared tasks stay because nothing could be said of them: they have no text, or
	// one that is too long for the model.
	NotCompared map[string]int64 `json:"not_compared"`
	Settings    settings         `json:"settings"`
	Seed        int64            `json:"seed"`
	Recall      *cosine.Recall   `json:"approximate"` // nil when every pair was compared
}

// write passes over the inputs again, and emits or drops each row.
func write(ctx context.Context, c Config, p *runner.Pass[record.Task], tasks []*entry, done decided) error {
	place := make(map[string]int, len(tasks))
	for i, e := range tasks {
		place[e.id] = i
	}
	f := funnel{Removed: map[string]int64{}, NotCompared: map[string]int64{}, Settings: c.settings(), Seed: c.Seed, Recall: done.recall}
	drop := func(reason string) {
		p.Drop(reason)
		f.Removed[reason]++
	}
	var again bytes.Buffer // rows that are there twice
	for _, in := range p.Inputs {
		for t, err := range datasets.Rows[record.Task](ctx, in) {
			if err != nil {
				return err
			}
			p.Read(1)
			f.In++
			row, ok := place[t.TaskID]
			switch {
			case !ok:
				return exit.With(exit.Bug, fmt.Errorf("--in %s: task %s was not there when it was read before", in.Location(), t.TaskID))
			case tasks[row].from != in:
				drop(ReasonSame)
				if err := line(&again, removed{t.TaskID, "same_row", ReasonSame, &t.TaskID, one()}); err != nil {
					return err
				}
			case !done.rows[row].Kept():
				drop(done.reason(row))
			default:
				if err := p.Emit(ctx, t); err != nil {
					return err
				}
				f.Out++
				f.note(tasks[row], done.tooLong[row])
			}
		}
	}
	return files(ctx, p, f, tasks, done, again.Bytes())
}

func one() *float64 {
	f := 1.0
	return &f
}

// reason is why a task was removed.
func (d decided) reason(row int) string {
	if r := d.rows[row].Refuse; r != "" {
		return r
	}
	return reasons[d.methods[d.rows[row].By]]
}

func (f *funnel) note(e *entry, tooLong bool) {
	switch {
	case e.text == "":
		f.NotCompared["no_text"]++
	case tooLong:
		f.NotCompared["too_long"]++
	}
}

// balance is an error unless every task that came in went out or was removed.
func (f *funnel) balance() error {
	sum := f.Out
	for _, n := range f.Removed {
		sum += n
	}
	if sum != f.In {
		return exit.With(exit.Bug, fmt.Errorf("%d tasks came in, and %d went out or were removed", f.In, sum))
	}
	return nil
}

// files puts removed.jsonl, in the order of the decisions, and funnel.json.
func files(ctx context.Context, p *runner.Pass[record.Task], f funnel, tasks []*entry, done decided, again []byte) error {
	if err := f.balance(); err != nil {
		return err
	}
	var list bytes.Buffer
	for row, d := range done.rows {
		if d.Kept() {
			continue
		}
		r := removed{TaskID: tasks[row].id, Method: done.methods[d.By], Reason: done.reason(row)}
		if d.Twin >= 0 {
			r.Kept, r.Score = &tasks[d.Twin].id, &d.Score
		}
		if err := line(&list, r); err != nil {
			return err
		}
	}
	list.Write(again)
	if _, err := p.PutFile(ctx, "removed.jsonl", objstore.Bytes(list.Bytes())); err != nil {
		return err
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	_, err = p.PutFile(ctx, "funnel.json", objstore.Bytes(append(b, '\n')))
	return err
}

func line(to *bytes.Buffer, r removed) error {
	b, err := seal.JSON(r)
	to.Write(b)
	to.WriteByte('\n')
	return err
}
