package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

func commit[R record.Row](t *testing.T, root, name string, rows []R, at time.Time, meta datasets.Meta) *datasets.Version {
	t.Helper()
	meta.Started, meta.Committed = at, at
	return fixture.Version(t, root, name, rows, meta)
}

// evaluated commits the evaluation of a run on a day of March.
func evaluated(t *testing.T, root, id, settings string, day int, row record.Evaluation) string {
	t.Helper()
	at := time.Date(2026, 3, day, 2, 0, 0, 0, time.UTC)
	rollouts := commit(t, root, "eval", []record.Rollout{}, at, datasets.Meta{Stage: datasets.Stage{Name: "evaluate", Version: 1, RunID: id, Config: json.RawMessage(settings)}})
	row.EvaluationID, row.Policy, row.Harness, row.Pass = "e", "m", "h", []record.PassAt{}
	return commit(t, root, "eval-evaluation", []record.Evaluation{row}, at, datasets.Meta{
		Stage:  datasets.Stage{Name: "evaluation", Version: 1, RunID: id, Config: json.RawMessage(`{"rows":` + settings + `}`)},
		Inputs: []datasets.Input{rollouts.Input("in")}}).Location().String()
}

func ask(t *testing.T, uri string) (said string, outputs map[string]string, err error) {
	t.Helper()
	c := Config{Config: runner.Default(), Alpha: .05, Last: 30}
	c.In, c.OutputDir = []string{uri}, t.TempDir()
	var out bytes.Buffer
	err = Run(t.Context(), c, runner.Deps{Stdout: &out, Stderr: new(bytes.Buffer)})
	outputs = map[string]string{}
	for _, name := range []string{"headline", "rate", "low", "high", "mcnemar-p", "regression"} {
		b, rerr := os.ReadFile(filepath.Join(c.OutputDir, name))
		if rerr == nil {
			outputs[name] = string(b)
		}
	}
	return out.String(), outputs, err
}

// A headline is numbers for a workflow; runs of other settings and later ones are not its history.
func TestHeadline(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rate, low, high, p, diff, up, down, common := .5, .4, .6, .01, -.2, int64(1), int64(9), int64(40)
	plain := record.Evaluation{Rollouts: 40, Known: 40, Resolved: 20, Rate: &rate, Low: &low, High: &high}
	worse := plain
	worse.Common, worse.NewlyResolved, worse.NewlyFailed, worse.McNemarP, worse.Difference = &common, &up, &down, &p, &diff
	first := evaluated(t, root, "first", "{}", 1, plain)
	evaluated(t, root, "otherwise", `{"rollouts":2}`, 2, plain)
	second := evaluated(t, root, "second", "{}", 3, worse)
	evaluated(t, root, "third", "{}", 4, plain)

	said, out, err := ask(t, second)
	if err != nil {
		t.Fatal(err)
	}
	if out["rate"] != "0.5" || out["low"] != "0.4" || out["high"] != "0.6" || out["mcnemar-p"] != "0.01" || out["regression"] != "true" || !strings.Contains(out["headline"], "a regression") {
		t.Errorf("outputs %q", out)
	}
	if i, j := strings.Index(said, "\nsecond"), strings.Index(said, "\nfirst"); i < 0 || j < i || strings.Contains(said, "third") || strings.Contains(said, "otherwise") {
		t.Errorf("it says\n%s", said)
	}
	if _, out, err := ask(t, first); err != nil || out["mcnemar-p"] != "" || out["regression"] != "" {
		t.Errorf("without a baseline: %q, %v", out, err)
	}
}

// Without a headline a run has failed, and what is known of it is said all the same.
func TestNoHeadline(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	uri := evaluated(t, root, "away", "{}", 1, record.Evaluation{Rollouts: 40, Known: 30, Resolved: 20, Withheld: "10 of 40 rollouts are unknown, more than 2 %", Worst: .5, Best: .75})
	said, out, err := ask(t, uri)
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "no headline: 10 of 40 rollouts are unknown") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(said, "50.0 % at worst and 75.0 % at best") || out["rate"] != "" || !strings.Contains(out["headline"], "no headline") {
		t.Errorf("%q\n%s", out, said)
	}
	if _, _, err := ask(t, root+"/eval"); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "holds rollout rows") {
		t.Errorf("of rollouts: %v", err)
	}
}
