package argo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/argoproj/argo-workflows/v3/util/expr/argoexpr"
	"github.com/argoproj/argo-workflows/v3/util/expr/env"
	"sigs.k8s.io/yaml"

	"orchard/internal/exit"
	"orchard/internal/pipeline"
)

// An ended step, as Argo's controller describes it to a retry expression, and whether it
// is to be tried again. A code of -1 is Argo's word for none.
var ends = []struct {
	name, status string
	code         int
	message      string
	again        bool
}{
	{"bug", "Failed", exit.Bug, "main: Error (exit code 1): …", false},
	{"bad input", "Failed", exit.Input, "main: Error (exit code 65)", false},
	{"gone for good", "Failed", exit.Gone, "main: Error (exit code 69)", false},
	{"try again", "Failed", exit.Retry, "main: Error (exit code 75)", true},
	{"bad configuration", "Failed", exit.Config, "main: Error (exit code 78)", false},
	{"panic", "Failed", 2, "main: Error (exit code 2)", false},
	{"out of memory", "Failed", 137, "main: OOMKilled (exit code 137)", false},
	{"killed, not out of memory", "Failed", 137, "main: Error (exit code 137)", true},
	{"SIGTERM before the stage could listen", "Failed", 143, "main: Error (exit code 143)", true},
	{"Pod deleted", "Error", -1, "pod deleted", true},
	{"spot machine taken away", "Failed", -1, "Pod was terminated in response to imminent node shutdown.", true},
	{"preempted", "Failed", -1, "Preempted in order to admit critical pod", true},
	{"evicted", "Failed", -1, "The node was low on resource: ephemeral-storage. Container main was using 21Gi", true},
	{"deadline", "Failed", -1, "Pod was active on the node longer than the specified deadline", false},
	{"Argo's executor", "Failed", 64, "main: Error (exit code 64)", false},
	{"Argo's wait container", "Error", -1, "wait: Error (exit code 1): S3 503", true},
	{"program that is not there", "Failed", 127, "main: Error (exit code 127)", false},
}

// judgedByArgo is the expression through Argo's own evaluator, with the variables as its
// controller gives them: all of them text.
func judgedByArgo(expression, status, message string, code int) (bool, error) {
	return argoexpr.EvalBool(expression, env.GetFuncMap(map[string]any{
		"retries": "0", "lastRetry.exitCode": strconv.Itoa(code), "lastRetry.status": status, "lastRetry.message": message, "lastRetry.duration": "12.5",
	}))
}

// judgedHere runs a step that ends so, as `orchard run` does, and says whether it ran again.
func judgedHere(t *testing.T, expression, status, message string, code int) bool {
	t.Helper()
	raw, err := yaml.Marshal(fields("kind", "WorkflowTemplate", "metadata", fields("name", "one"), "spec", fields("entrypoint", "step", "templates", []any{
		fields("name", "step", "container", fields("args", []any{"x"}), "retryStrategy", fields("limit", 1, "expression", expression)),
	})))
	if err != nil {
		t.Fatal(err)
	}
	lib := pipeline.Library{}
	if err := lib.Add("one.yaml", raw); err != nil {
		t.Fatal(err)
	}
	runs := 0
	_, err = pipeline.Run(t.Context(), lib, "one", pipeline.Options{
		ID: "one", Pause: func(context.Context, time.Duration) error { return nil },
		Step: func(context.Context, pipeline.Step) (pipeline.StepResult, error) {
			runs++
			if status == "Error" {
				return pipeline.StepResult{}, exit.With(code, errors.New(message))
			}
			return pipeline.StepResult{ExitCode: code, Message: message}, nil
		},
	})
	if err == nil {
		t.Fatal("a run of a step that fails succeeded")
	}
	return runs > 1
}

// The retry expression is the table of exit codes: in Argo, and here.
func TestRetriesFollowTheExitTable(t *testing.T) {
	expression := read(shipped(t)).expression()
	if expression == "" {
		t.Fatal("no template has a retry expression")
	}
	covered := map[int]bool{exit.OK: true}
	for _, e := range ends {
		covered[e.code] = true
		there, err := judgedByArgo(expression, e.status, e.message, e.code)
		if err != nil || there != e.again {
			t.Errorf("%s: Argo tries again: %v (%v), want %v", e.name, there, err, e.again)
		}
		if here := judgedHere(t, expression, e.status, e.message, e.code); here != e.again {
			t.Errorf("%s: orchard run tries again: %v, want %v", e.name, here, e.again)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ +(\d+) `).FindAllStringSubmatch(exit.Help, -1) {
		if code, _ := strconv.Atoi(m[1]); !covered[code] {
			t.Errorf("exit code %d is in the table of every stage's help and not tried here", code)
		}
	}
	if len(covered) < 6 {
		t.Errorf("only %v were tried", covered)
	}
}

// Codes that no table has are faults: only those of a try-again and of a kill are tried
// again, and both evaluators agree on every one.
func TestEveryExitCode(t *testing.T) {
	expression := read(shipped(t)).expression()
	for code := 1; code < 256; code++ {
		message := fmt.Sprintf("main: Error (exit code %d)", code)
		want := code == exit.Retry || code == 137 || code == 143
		there, err := judgedByArgo(expression, "Failed", message, code)
		if here := judgedHere(t, expression, "Failed", message, code); err != nil || there != want || here != want {
			t.Errorf("exit code %d: Argo %v (%v), orchard run %v, want %v", code, there, err, here, want)
		}
	}
}

// A wrong expression is seen by the tests above.
func TestWrongRetryExpressions(t *testing.T) {
	shipped := read(shipped(t)).expression()
	for _, wrong := range []string{
		"true", "false",
		`lastRetry.status == "Error"`,
		`asInt(lastRetry.exitCode) in [65, 75, 143] || ` + shipped,
		`asInt(lastRetry.exitCode) == 137 || ` + shipped,
		`lastRetry.message contains "deadline" || ` + shipped,
		`(` + shipped + `) && !(lastRetry.message contains "low on")`,
	} {
		found := false
		for _, e := range ends {
			there, err := judgedByArgo(wrong, e.status, e.message, e.code)
			found = found || err != nil || there != e.again
			if here := judgedHere(t, wrong, e.status, e.message, e.code); here != there {
				t.Errorf("%s: %s: Argo says %v, orchard run %v", wrong, e.name, there, here)
			}
		}
		if !found {
			t.Errorf("%s: passes for the table of exit codes", wrong)
		}
	}
}
