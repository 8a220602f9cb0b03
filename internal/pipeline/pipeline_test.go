package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/workflows"

	"github.com/google/go-cmp/cmp"
)

// leafs is a library of one leaf template that every test pipeline uses.
const leafs = `
kind: WorkflowTemplate
metadata: {name: lib}
spec:
  templates:
    - name: step
      inputs: {parameters: [{name: a}, {name: b, value: dflt}]}
      retryStrategy:
        limit: 2
        backoff: {duration: 1s, factor: 3, cap: 2s}
        expression: asInt(lastRetry.exitCode) in [75] || lastRetry.status == "Error"
      container:
        args: ["{{inputs.parameters.a}}", "{{inputs.parameters.b}}", "{{workflow.name}}"]
        env: [{name: E, value: "{{retries}}"}]
      outputs: {parameters: [{name: o, valueFrom: {path: /x/o, default: none}}]}
`

func pipelineYAML(dag string) string {
	return leafs + "\n---\nkind: WorkflowTemplate\nmetadata: {name: p}\nspec:\n  entrypoint: main\n" +
		"  arguments: {parameters: [{name: num, value: \"3\"}, {name: kind, value: x, enum: [x, z]}]}\n  templates:\n    - name: main\n" + dag
}

// steps plays container steps: it answers by the first argument.
type steps struct {
	mu    sync.Mutex
	calls []string
	end   func(s Step) (StepResult, error)
}

func (f *steps) step(_ context.Context, s Step) (StepResult, error) {
	f.mu.Lock()
	f.calls = append(f.calls, strings.TrimPrefix(s.Node, "p/")+" "+strings.Join(s.Args, " "))
	f.mu.Unlock()
	if f.end == nil {
		return StepResult{Outputs: map[string]string{"o": s.Args[0] + "!"}}, nil
	}
	return f.end(s)
}

func play(t *testing.T, yaml string, f *steps, params map[string]string) (Result, error) {
	t.Helper()
	lib := Library{}
	if err := lib.Add("test.yaml", []byte(yaml)); err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), lib, "p", Options{ID: "run1", Params: params, Step: f.step,
		Pause: func(context.Context, time.Duration) error { return nil }})
}

const ref = "templateRef: {name: lib, template: step}"

func TestDataFlowsThroughOutputs(t *testing.T) {
	t.Parallel()
	f := &steps{}
	res, err := play(t, pipelineYAML(`
      dag:
        tasks:
          - {name: c, depends: a && b.Succeeded, `+ref+`, arguments: {parameters: [{name: a, value: "{{tasks.a.outputs.parameters.o}}"}, {name: b, value: "{{=asInt(workflow.parameters.num) + 1}}"}]}}
          - {name: a, `+ref+`, arguments: {parameters: [{name: a, value: one}]}}
          - {name: b, `+ref+`, arguments: {parameters: [{name: a, value: two}, {name: b, value: "{{workflow.parameters.kind}}"}]}}
      outputs: {parameters: [{name: last, valueFrom: {parameter: "{{tasks.c.outputs.parameters.o}}"}}]}
`), f, map[string]string{"kind": "z"})
	if err != nil || res.Phase != Succeeded {
		t.Fatalf("%v, %v", res, err)
	}
	slices.Sort(f.calls)
	want := []string{"a one dflt run1", "b two z run1", "c one! 4 run1"}
	if d := cmp.Diff(want, f.calls); d != "" {
		t.Error(d)
	}
	if res.Outputs["last"] != "one!!" {
		t.Errorf("outputs %v", res.Outputs)
	}
}

func TestFanOutWhenAndRecursion(t *testing.T) {
	t.Parallel()
	f := &steps{end: func(s Step) (StepResult, error) {
		if s.Args[0] == "plan" {
			return StepResult{Outputs: map[string]string{"o": `["0/2","1/2"]`}}, nil
		}
		return StepResult{Outputs: map[string]string{"o": "v"}}, nil
	}}
	res, err := play(t, pipelineYAML(`
      inputs: {parameters: [{name: round, value: "0"}]}
      dag:
        tasks:
          - {name: plan, `+ref+`, arguments: {parameters: [{name: a, value: plan}]}}
          - {name: map, depends: plan, `+ref+`, withParam: "{{tasks.plan.outputs.parameters.o}}", arguments: {parameters: [{name: a, value: "s{{item}}"}]}}
          - {name: none, `+ref+`, withParam: "[]", arguments: {parameters: [{name: a, value: x}]}}
          - {name: objs, depends: none, `+ref+`, withItems: [{k: 1}, {k: two}], arguments: {parameters: [{name: a, value: "{{item.k}}"}]}}
          - {name: commit, depends: map.Succeeded || map.Skipped, `+ref+`, arguments: {parameters: [{name: a, value: commit}]}}
          - {name: again, depends: commit, when: "{{inputs.parameters.round}} < 2", template: main, arguments: {parameters: [{name: round, value: "{{=asInt(inputs.parameters.round) + 1}}"}]}}
`), f, nil)
	if err != nil || res.Phase != Succeeded {
		t.Fatalf("%v, %v", res, err)
	}
	count := map[string]int{}
	for _, c := range f.calls {
		node, args, _ := strings.Cut(c, " ")
		count[strings.TrimSuffix(args, " dflt run1")]++
		if strings.Contains(node, "none") {
			t.Errorf("an empty fan-out ran %s", c)
		}
	}
	want := map[string]int{"plan": 3, "s0/2": 3, "s1/2": 3, "1": 3, "two": 3, "commit": 3}
	if d := cmp.Diff(want, count); d != "" {
		t.Error(d)
	}
}

func TestRetryFollowsTheExpression(t *testing.T) {
	t.Parallel()
	one := pipelineYAML("      dag: {tasks: [{name: a, " + ref + ", arguments: {parameters: [{name: a, value: x}]}}]}\n")
	for _, c := range []struct {
		name  string
		codes []int // -1 is an error of the machine
		calls int
		code  int
	}{
		{"again after 75", []int{75, 0}, 2, 0},
		{"limit is further runs", []int{75, 75, 75}, 3, 75},
		{"not after bad input", []int{65}, 1, 65},
		{"again when the step was lost", []int{-1, 0}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &steps{end: func(s Step) (StepResult, error) {
				if s.Env["E"] != fmt.Sprint(s.Attempt) {
					t.Errorf("attempt %d has {{retries}} %s", s.Attempt, s.Env["E"])
				}
				if code := c.codes[s.Attempt]; code >= 0 {
					return StepResult{ExitCode: code, Message: "words"}, nil
				}
				return StepResult{}, errors.New("no such program")
			}}
			res, err := play(t, one, f, nil)
			if len(f.calls) != c.calls || exit.Code(err) != c.code {
				t.Errorf("%d calls, exit %d (%v); want %d, %d", len(f.calls), exit.Code(err), err, c.calls, c.code)
			}
			if c.code != 0 && (res.Phase != Failed || !strings.Contains(err.Error(), "p/a: exit code") || !strings.Contains(err.Error(), "words")) {
				t.Errorf("phase %s, error %v", res.Phase, err)
			}
		})
	}
}

func TestFailureStopsWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tasks string
		phase       Phase
		ran         string
	}{
		{"a chain", `[{name: bad, REF}, {name: b, depends: bad, REF}]`, Failed, "bad"},
		{"handled", `[{name: bad, REF}, {name: b, depends: bad.Failed, REF}]`, Succeeded, "b bad"},
		{"handled without failFast, omitted beside it", `[{name: bad, REF}, {name: b, depends: bad.Failed || ok, REF}, {name: ok, depends: bad, REF}]`, Failed, "bad"},
		{"the status can be read", `[{name: a, REF}, {name: b, depends: a, when: "{{tasks.a.status}} == Succeeded", REF}, {name: c, depends: a, when: "'{{tasks.a.status}}' != Succeeded", REF}]`, Succeeded, "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &steps{end: func(s Step) (StepResult, error) {
				if strings.HasSuffix(s.Node, "/bad") {
					return StepResult{ExitCode: 1}, nil
				}
				return StepResult{Outputs: map[string]string{"o": ""}}, nil
			}}
			tasks := strings.ReplaceAll(c.tasks, "REF", ref+", arguments: {parameters: [{name: a, value: x}]}")
			failFast := "true"
			if c.name == "handled" {
				failFast = "false"
			}
			res, err := play(t, pipelineYAML("      dag: {failFast: "+failFast+", tasks: "+tasks+"}\n"), f, nil)
			var ran []string
			for _, call := range f.calls {
				node, _, _ := strings.Cut(call, " ")
				ran = append(ran, node)
			}
			slices.Sort(ran)
			if res.Phase != c.phase || strings.Join(ran, " ") != c.ran {
				t.Errorf("phase %s ran %v (%v), want %s %s", res.Phase, ran, err, c.phase, c.ran)
			}
		})
	}
}

func TestCheckNamesEveryFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, dag, want string }{
		{"unknown task", `{name: a, depends: zz, REF}`, `depends on "zz"`},
		{"circle", `{name: a, depends: b, REF}, {name: b, depends: a, REF}`, "depends on itself"},
		{"missing argument", `{name: a, templateRef: {name: lib, template: step}}`, `needs the argument "a"`},
		{"unknown argument", `{name: a, templateRef: {name: lib, template: step}, arguments: {parameters: [{name: a, value: x}, {name: q, value: x}]}}`, `no input "q"`},
		{"unknown template", `{name: a, template: nope}`, `no template "nope"`},
		{"unknown library", `{name: a, templateRef: {name: nolib, template: step}}`, `no WorkflowTemplate "nolib"`},
		{"reads without depending", `{name: a, REF}, {name: b, templateRef: {name: lib, template: step}, arguments: {parameters: [{name: a, value: "{{tasks.a.outputs.parameters.o}}"}]}}`, "without depending on it"},
		{"unknown output", `{name: a, REF}, {name: b, depends: a, templateRef: {name: lib, template: step}, arguments: {parameters: [{name: a, value: "{{tasks.a.outputs.parameters.zz}}"}]}}`, `no output "zz"`},
		{"unknown workflow parameter", `{name: a, templateRef: {name: lib, template: step}, arguments: {parameters: [{name: a, value: "{{workflow.parameters.zz}}"}]}}`, "no such parameter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &steps{}
			tasks := strings.ReplaceAll(c.dag, "REF", ref+", arguments: {parameters: [{name: a, value: x}]}")
			_, err := play(t, pipelineYAML("      dag: {tasks: ["+tasks+"]}\n"), f, nil)
			if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want) || f.calls != nil {
				t.Errorf("error %v after %v, want %q and nothing run", err, f.calls, c.want)
			}
		})
	}
}

func TestParametersAndStrictness(t *testing.T) {
	t.Parallel()
	ok := pipelineYAML("      dag: {tasks: [{name: a, " + ref + ", arguments: {parameters: [{name: a, value: x}]}}]}\n")
	for _, c := range []struct {
		name   string
		params map[string]string
		want   string
	}{
		{"unknown", map[string]string{"zz": "1"}, "-p zz: pipeline p has no such parameter; it has: num, kind"},
		{"outside the enum", map[string]string{"kind": "q"}, "-p kind=q: must be one of [x z]"},
	} {
		if _, err := play(t, ok, &steps{}, c.params); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A cluster's own value is empty here, unless it is given.
	f, cluster := &steps{}, strings.Replace(pipelineYAML("      dag: {tasks: [{name: a, "+ref+", arguments: {parameters: [{name: a, value: \"{{workflow.parameters.img}}.\"}]}}]}\n"),
		"{name: num,", "{name: img, valueFrom: {configMapKeyRef: {name: m, key: k}}}, {name: num,", 1)
	for i, want := range []string{"a . dflt run1", "a i. dflt run1"} {
		if _, err := play(t, cluster, f, map[string]string{"img": "i"[:i]}); err != nil || f.calls[i] != want {
			t.Errorf("a parameter from a ConfigMap: %v, %q, want %q", err, f.calls, want)
		}
	}
	if _, err := play(t, cluster, f, nil); err != nil || f.calls[2] != f.calls[0] {
		t.Errorf("a parameter from a ConfigMap that is not given: %v, %q", err, f.calls)
	}
	err := Library{}.Add("f.yaml", []byte(strings.Replace(ok, "dag:", "steps: []\n      dag:", 1)))
	if err == nil || !strings.Contains(err.Error(), "steps") {
		t.Errorf("a field outside the subset: %v", err)
	}
	endless := pipelineYAML("      dag: {tasks: [{name: a, template: main}]}\n")
	if _, err := play(t, endless, &steps{}, nil); err == nil || !strings.Contains(err.Error(), "call each other") {
		t.Errorf("endless recursion: %v", err)
	}
}

func TestDeadlineEndsTheRun(t *testing.T) {
	t.Parallel()
	lib := Library{}
	yaml := strings.Replace(pipelineYAML("      dag: {tasks: [{name: a, "+ref+", arguments: {parameters: [{name: a, value: x}]}}]}\n"),
		"entrypoint: main", "entrypoint: main\n  activeDeadlineSeconds: 1", 1)
	if err := lib.Add("f", []byte(yaml)); err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), lib, "p", Options{ID: "r", Step: func(ctx context.Context, s Step) (StepResult, error) {
		<-ctx.Done()
		return StepResult{ExitCode: 75}, nil
	}})
	if res.Phase != Failed || exit.Code(err) != exit.Retry {
		t.Errorf("%v, %v", res, err)
	}
}

// A step that ends well after the deadline does not make the rest of the run a success.
func TestDeadlineBetweenTasks(t *testing.T) {
	t.Parallel()
	lib := Library{}
	task := "templateRef: {name: lib, template: step}, arguments: {parameters: [{name: a, value: x}]}}"
	yaml := strings.Replace(pipelineYAML("      dag: {tasks: [{name: a, "+task+", {name: b, depends: a, "+task+"]}\n"),
		"entrypoint: main", "entrypoint: main\n  activeDeadlineSeconds: 1", 1)
	if err := lib.Add("f", []byte(yaml)); err != nil {
		t.Fatal(err)
	}
	ran := 0
	res, err := Run(t.Context(), lib, "p", Options{ID: "r", Step: func(ctx context.Context, s Step) (StepResult, error) {
		ran++
		<-ctx.Done()
		return StepResult{}, nil
	}})
	if ran != 1 || res.Phase != Failed || exit.Code(err) != exit.Retry || !strings.Contains(err.Error(), "p/b") {
		t.Errorf("%d steps, %v, %v", ran, res, err)
	}
}

// Every pipeline that is shipped passes the static check.
func TestShippedPipelines(t *testing.T) {
	t.Parallel()
	lib, err := Load(workflows.FS, "templates", "pipelines")
	if err != nil {
		t.Fatal(err)
	}
	if len(lib.Pipelines()) == 0 {
		t.Fatal("no pipelines")
	}
	for _, name := range lib.Pipelines() {
		if err := lib.Check(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
