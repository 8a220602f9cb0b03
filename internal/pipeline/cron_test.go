package pipeline

import (
	"context"
	"slices"
	"strings"
	"testing"
)

const started = `kind: WorkflowTemplate
metadata: {name: work}
spec:
  entrypoint: main
  arguments:
    parameters:
      - {name: a, value: own}
      - {name: b, value: own}
      - {name: c}
  templates:
    - {name: main, container: {args: ["{{workflow.parameters.a}}", "{{workflow.parameters.b}}", "{{workflow.parameters.c}}"]}}
`

const clock = `kind: CronWorkflow
metadata: {name: nightly}
spec:
  schedules: [17 2 * * *]
  timezone: Etc/UTC
  concurrencyPolicy: Forbid
  workflowSpec:
    arguments:
      parameters:
        - {name: b, value: nightly}
        - {name: c, valueFrom: {configMapKeyRef: {name: x, key: y}}}
    workflowTemplateRef: {name: work}
`

// To run a CronWorkflow is to run once what it starts, with its arguments, and to leave the
// pipeline as it is.
func TestCronRunsOnce(t *testing.T) {
	t.Parallel()
	lib := Library{}
	for _, text := range []string{started, clock} {
		if err := lib.Add("f.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{"nightly": {"own", "nightly", "x"}, "work": {"own", "own", "x"}} {
		var got []string
		_, err := Run(t.Context(), lib, name, Options{ID: "r", Params: map[string]string{"c": "x"}, Step: func(_ context.Context, s Step) (StepResult, error) {
			got = s.Args
			return StepResult{}, nil
		}})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if got := lib.Pipelines(); !slices.Equal(got, []string{"nightly", "work"}) {
		t.Errorf("pipelines %q", got)
	}
	if _, err := Run(t.Context(), lib, "nightly", Options{ID: "r"}); err == nil || !strings.Contains(err.Error(), "-p c=") {
		t.Errorf("without what a cluster knows: %v", err)
	}
}

func TestWrongCrons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"another pipeline":    {"{name: work}", "{name: wrk}", `starts the pipeline "wrk", which is not there`},
		"another's parameter": {"name: b,", "name: z,", `has no parameter "z"`},
		"a field that is not": {"schedules:", "shedules:", "shedules"},
		"templates":           {"    arguments:", "    templates: []\n    arguments:", "templates"},
		"its name":            {"{name: nightly}", "{name: work}", "defined twice"},
	} {
		lib := Library{}
		if err := lib.Add("f.yaml", []byte(started)); err != nil {
			t.Fatal(err)
		}
		if err := lib.Add("g.yaml", []byte(strings.Replace(clock, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
