package report

import (
	"bytes"
	"testing"

	"orchard/datasets/record"
)

func example() *Summary {
	s := NewSummary()
	s.TasksIn, s.SFTRows = 3, 2
	for i, o := range []record.Outcome{record.Resolved, record.Unresolved, record.Resolved, record.TaskInvalid} {
		s.Add(rollout("t"+string(rune('a'+i/2)), int64(i), o))
	}
	return s
}

func TestTableSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := example().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `tasks           3
rollouts        4  of 2 tasks: 1 always resolved, 1 sometimes
  resolved      2  reward 1
  unresolved    1  reward 0
  task_invalid  1  no reward
SFT rows        2
scripted in mini-swe-v2: no headline: 25 % of the rollouts have no reward, and at most 2 % may be so; the rate is 50.0 % at worst and 75.0 % at best
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTasksAddUp(t *testing.T) {
	t.Parallel()
	rows := example().Tasks()
	if len(rows) != 2 || rows[0].TaskID != "ta" || rows[0].Rollouts != 2 || rows[0].Resolved != 1 || *rows[0].Tokens != 400 || rows[0].TotalMS != 4000 {
		t.Errorf("%+v", rows)
	}
	if o := rows[1].Outcomes; len(o) != 2 || o[0].Outcome != record.Resolved || o[1].Outcome != record.TaskInvalid || rows[1].Known != 1 {
		t.Errorf("%+v", rows[1])
	}
}

// A dataset of a newer program may hold outcomes that this one does not know.
func TestUnknownOutcomesCountAsUnknown(t *testing.T) {
	t.Parallel()
	s := example()
	s.Missing = 1
	s.Add(rollout("tc", 0, "rewritten"))
	if u := s.Analysis().Systems[0].Share; s.Known != 3 || s.Rollouts != 5 || u != .5 {
		t.Errorf("%d of %d known, %g unknown", s.Known, s.Rollouts, u)
	}
	if o := s.occurred(); len(o) != 4 || o[3] != "rewritten" {
		t.Errorf("outcomes %v", o)
	}
	if always, sometimes, never, unknown := s.split(); always != 1 || sometimes != 1 || never != 0 || unknown != 1 {
		t.Errorf("split %d %d %d %d", always, sometimes, never, unknown)
	}
}
