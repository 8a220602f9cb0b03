package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/objstore/dir"
	"orchard/internal/runner"
)

func value(v float64) *float64 { return &v }

// credit is a row about r, with words that would do harm as markup.
func credit(t *testing.T, r record.Rollout) record.Credit {
	t.Helper()
	sum, err := export.TrajectorySum(r)
	if err != nil {
		t.Fatal(err)
	}
	return record.Credit{
		RolloutID: r.RolloutID, Trajectory: sum, Steps: 3, Method: record.CreditTeacher, Status: record.CreditAnnotated, Moment: "after",
		Keys:   []record.KeyStep{{Step: 0, Probability: .4, Reasoning: "begins"}, {Step: 2, Probability: .1, Reasoning: hostile}},
		Values: []*float64{value(.4), value(.4), nil, value(.1)}, Segments: []record.Segment{{Begin: 0, End: 1}}, Trained: []int64{0},
	}
}

// The viewer gets the curves of the trajectories that it shows, and of no others.
func TestCurvesInTheViewer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	rollouts := make([]record.Rollout, 6)
	for i := range rollouts {
		rollouts[i] = rollout("task", int64(i), record.Unresolved)
	}
	var some, all []record.Credit
	for i, r := range rollouts {
		c := credit(t, r)
		if i == 3 {
			c.Trajectory = "another"
		}
		all = append(all, c)
		if i%2 == 0 {
			some = append(some, c)
		}
	}
	if err := commit(t.Context(), store, "rollouts", len(rollouts), func(i int) record.Rollout { return rollouts[i] }); err != nil {
		t.Fatal(err)
	}
	if err := commit(t.Context(), store, "teacher", len(all), func(i int) record.Credit { return all[i] }); err != nil {
		t.Fatal(err)
	}
	if err := commit(t.Context(), store, "execution", len(some), func(i int) record.Credit { return some[i] }); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *datasets.Version {
		v, err := datasets.OpenIn(t.Context(), store, name, "")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	in := []*datasets.Version{open("teacher"), open("rollouts"), open("execution")}
	values, others := credits(t.Context(), in)
	defer values.close()
	if len(others) != 1 || others[0] != in[1] {
		t.Fatalf("%d other inputs", len(others))
	}
	var got []int
	for row, err := range datasets.Rows[record.Rollout](t.Context(), in[1]) {
		if err != nil {
			t.Fatal(err)
		}
		curves, err := values.of(row)
		if err != nil || curves == nil {
			t.Fatalf("%v, %v", curves, err)
		}
		got = append(got, len(curves))
		for _, c := range curves {
			if c.Keys[1].State != 3 || c.Keys[1].Why != hostile || c.Values[2] != nil || !strings.Contains(c.Title, "1 of 3 steps") {
				t.Errorf("%+v", c)
			}
		}
	}
	if d := cmp.Diff([]int{2, 1, 2, 0, 2, 1}, got); d != "" {
		t.Errorf("curves of the rollouts: %s", d)
	}

	c := Defaults()
	c.In, c.Out = []string{root + "/rollouts", root + "/teacher"}, root+"/report"
	var said strings.Builder
	res, err := Run(t.Context(), c, runner.Deps{Stdout: &said, Stderr: &said})
	if err != nil || len(res.Files) == 0 {
		t.Fatalf("%v %+v", err, res)
	}
}
