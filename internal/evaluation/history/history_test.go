package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
)

// world commits evaluations as `orchard evaluate` does.
type world struct {
	t     *testing.T
	store objstore.Store
}

func newWorld(t *testing.T) world {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return world{t, store}
}

func (w world) put(name string, rows any, meta datasets.Meta) *datasets.Version {
	w.t.Helper()
	meta.Started = meta.Committed
	var v *datasets.Version
	var err error
	switch list := rows.(type) {
	case []record.Rollout:
		v, err = fixture.Commit(w.t.Context(), w.store, name, slices.Values(list), meta)
	case []record.Evaluation:
		v, err = fixture.Commit(w.t.Context(), w.store, name, slices.Values(list), meta)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

var night = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// run commits the rollouts and the evaluation of a run on a day.
func (w world) run(id string, day int, settings, tasks string, rate *float64) *datasets.Version {
	at := night.AddDate(0, 0, day)
	in := datasets.Input{Kind: datasets.InputDataset, Name: "tasks", Digest: strings.Repeat(tasks, 64), Role: "in"}
	rollouts := w.put("eval", []record.Rollout{}, datasets.Meta{
		Stage: datasets.Stage{Name: "evaluate", Version: 1, Config: json.RawMessage(settings), Seed: 1, RunID: id}, Inputs: []datasets.Input{in}, Committed: at})
	return w.evaluated(rollouts, in, id, at.Add(time.Minute), settings, 1, rate)
}

func (w world) evaluated(rollouts *datasets.Version, tasks datasets.Input, id string, at time.Time, settings string, k int, rate *float64) *datasets.Version {
	row := record.Evaluation{EvaluationID: "e", Policy: "p", Harness: "h", Tasks: 10, Rollouts: 10, Known: 10, Resolved: 5, Rate: rate, Best: 1, Pass: []record.PassAt{}}
	if rate == nil {
		row.Withheld = "too much is unknown"
	}
	return w.put("eval-evaluation", []record.Evaluation{row}, datasets.Meta{
		Stage:  datasets.Stage{Name: "evaluation", Version: 1, Config: json.RawMessage(fmt.Sprintf(`{"rows":%s,"baseline":false,"pass_k":[%d]}`, settings, k)), Seed: 1, RunID: id},
		Inputs: []datasets.Input{rollouts.Input("in"), tasks}, Committed: at})
}

func half() *float64 { f := .5; return &f }

// The one before is the newest of the same settings, tasks and seed that is older and has a
// headline, and stays so when later ones come.
func TestBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const same, other = `{"rollouts":1}`, `{"rollouts":2}`
	w.run("first", 0, same, "a", half())
	want := w.run("second", 1, same, "a", half())
	w.run("withheld", 2, same, "a", nil)
	w.run("settings", 3, other, "a", half())
	w.run("tasks", 4, same, "b", half())
	own := w.run("own", 5, same, "a", half())
	look := func() (Run, bool) {
		all, err := All(t.Context(), w.store, "eval-evaluation")
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(all); i++ {
			if all[i].At.Before(all[i-1].At) {
				t.Error("not by time")
			}
		}
		r, err := Of(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		v, err := datasets.OpenIn(t.Context(), w.store, "eval", r.Rollouts[strings.LastIndex(r.Rollouts, "@")+1:])
		if err != nil {
			t.Fatal(err)
		}
		return Before(all, v.Manifest())
	}
	for range 2 {
		if r, ok := look(); !ok || r.URI != want.Location().String() || r.ID != "second" {
			t.Errorf("%v, %v", r.ID, ok)
		}
		w.run("later", 6, same, "a", half())
	}
	// Looked at anew, with another k, it is the same run still, and the newest look counts.
	r, _ := Of(t.Context(), want)
	rollouts, _ := datasets.OpenIn(t.Context(), w.store, "eval", r.Rollouts[strings.LastIndex(r.Rollouts, "@")+1:])
	again := w.evaluated(rollouts, rollouts.Manifest().Inputs[0], "second", night.AddDate(0, 1, 0), same, 2, half())
	if r, ok := look(); !ok || r.URI != again.Location().String() {
		t.Errorf("%v, %v, want the newest look at second", r.URI, ok)
	}
}

func TestNoneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := w.run("own", 0, `{}`, "a", half())
	all, err := All(t.Context(), w.store, "eval-evaluation")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	v, err := datasets.OpenIn(t.Context(), w.store, "eval", own.Manifest().Inputs[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := Before(all, v.Manifest()); ok {
		t.Error("a run came before itself")
	}
	if all, err := All(t.Context(), w.store, "nothing"); err != nil || len(all) != 0 {
		t.Errorf("of nothing: %v, %v", all, err)
	}
	if _, err := Of(t.Context(), v); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "holds rollout rows") {
		t.Errorf("of rollouts: %v", err)
	}
}

func TestRegressed(t *testing.T) {
	t.Parallel()
	row := func(p, diff float64, up, down int64) record.Evaluation {
		return record.Evaluation{Rate: half(), Common: &up, McNemarP: &p, Difference: &diff, NewlyResolved: &up, NewlyFailed: &down}
	}
	for name, c := range map[string]struct {
		row  record.Evaluation
		want bool
	}{
		"worse":             {row(.01, -.1, 1, 9), true},
		"better":            {row(.01, .1, 9, 1), false},
		"chance":            {row(.05, -.1, 3, 9), false}, // p is not below
		"more rollouts say": {row(.01, .02, 1, 9), false},
		"not tested":        {record.Evaluation{Rate: half()}, false},
	} {
		if got := Regressed(c.row, .05); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		r := Run{Systems: []record.Evaluation{c.row}}.Regression(.05)
		if (r == nil) != (c.row.McNemarP == nil) || r != nil && *r != c.want {
			t.Errorf("%s: run says %v", name, r)
		}
	}
	var table bytes.Buffer
	if err := Table(&table, []Run{{ID: "a"}, {ID: "b", Systems: []record.Evaluation{row(.01, -.1, 1, 9)}}}, 1, .05); err != nil || !strings.Contains(table.String(), "yes") || strings.Contains(table.String(), "\na ") {
		t.Errorf("%v\n%s", err, table.String())
	}
}
