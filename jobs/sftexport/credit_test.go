package sftexport

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// long is a rollout of n steps.
func long(t *testing.T, id string, o record.Outcome, n int) (record.Rollout, string) {
	t.Helper()
	r := rollout(id, o, 10)
	step, said := r.Trajectory.Steps[0], r.Trajectory.Messages[1]
	for i := 1; i < n; i++ {
		said.Step = int64(i)
		r.Trajectory.Steps = append(r.Trajectory.Steps, step)
		r.Trajectory.Messages = append(r.Trajectory.Messages, said)
	}
	sum, err := export.TrajectorySum(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, sum
}

// valued writes a credit dataset beside the rollouts of c.
func valued(t *testing.T, c Config, rows ...record.Credit) string {
	t.Helper()
	return fixture.Dataset(t, filepath.Dir(c.Out), "credit", "credit", rows)
}

func TestCreditSaysWhatIsTrained(t *testing.T) {
	t.Parallel()
	solved, _ := long(t, "a", record.Resolved, 4)
	failed, sum := long(t, "b", record.Unresolved, 6)
	flat, flatSum := long(t, "c", record.Unresolved, 4)
	bad, badSum := long(t, "d", record.Partial, 4)
	missing, _ := long(t, "e", record.Unresolved, 4)
	unknown, _ := long(t, "f", record.NotGraded, 4)
	c := given(t, solved, failed, flat, bad, missing, unknown)
	c.Keep = KeepGraded
	c.Credit = valued(t, c,
		record.Credit{RolloutID: "a", Status: record.CreditNotNeeded},
		record.Credit{RolloutID: "b", Status: record.CreditAnnotated, Trajectory: sum, Segments: []record.Segment{{Begin: 1, End: 3}, {Begin: 4, End: 5}}},
		record.Credit{RolloutID: "c", Status: record.CreditMeasured, Trajectory: flatSum},
		record.Credit{RolloutID: "d", Status: record.CreditFailed, Trajectory: badSum},
		record.Credit{RolloutID: "g", Status: record.CreditAnnotated})
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int64{ReasonNoRise: 1, record.CreditFailed: 1, ReasonNoCredit: 1, ReasonUnknown: 1}, res.Dropped); d != "" || res.RowsIn != 6 || res.RowsOut != 2 {
		t.Errorf("%d in, %d out\n%s", res.RowsIn, res.RowsOut, d)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	masks := map[string]string{}
	for row, err := range datasets.Rows[record.SFTRow](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range row.Messages {
			masks[row.ID] += map[bool]string{false: "0", true: "1"}[m.Train]
		}
	}
	// The first message is the user's; after the last that is trained there is nothing.
	if d := cmp.Diff(map[string]string{"a": "01111", "b": "001101"}, masks); d != "" {
		t.Error(d)
	}
	if in := v.Manifest().Inputs; len(in) != 2 || in[1].Name != "credit" {
		t.Errorf("the credit is not among the inputs: %+v", in)
	}
	again, err := Run(t.Context(), c, quiet())
	if err != nil || again.Status != runner.StatusAlready {
		t.Errorf("%+v, %v", again, err)
	}
	whole := c
	whole.Credit = ""
	if res, err := Run(t.Context(), whole, quiet()); err != nil || res.RowsOut != 5 {
		t.Errorf("without credit: %+v, %v", res, err)
	}
}

func TestCreditThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	r, _ := long(t, "a", record.Unresolved, 4)
	c := given(t, r)
	c.Keep = KeepGraded
	c.Credit = valued(t, c, record.Credit{RolloutID: "a", Status: record.CreditAnnotated, Trajectory: "of another run", Segments: []record.Segment{{Begin: 0, End: 1}}})
	for _, e := range []struct {
		name   string
		change func(*Config)
		code   int
		says   string
	}{
		{"of another trajectory", func(*Config) {}, exit.Input, "rollout a: the credit is of another trajectory"},
		{"is not there", func(c *Config) { c.Credit += "s" }, exit.Input, "--credit: "},
		{"is something else", func(c *Config) { c.Credit = c.In[0] }, exit.Input, "orchard credit` makes"},
		{"given as an input", func(c *Config) { c.In, c.Credit = []string{c.Credit}, "" }, exit.Input, "given with --credit"},
		{"with resolved alone", func(c *Config) { c.Keep = KeepResolved }, exit.Config, "--keep graded"},
	} {
		bad := c
		e.change(&bad)
		if _, err := Run(t.Context(), bad, quiet()); exit.Code(err) != e.code || !strings.Contains(err.Error(), e.says) {
			t.Errorf("%s: exit %d: %v", e.name, exit.Code(err), err)
		}
	}
}
