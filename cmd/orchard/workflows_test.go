package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"orchard/internal/argv"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/pipeline"
	"orchard/workflows"
)

// errReached is the end of a command line that the program takes: its flags parse, its
// settings are valid, and it goes to its store.
var (
	errReached = errors.New("the store is reached")
	reached    atomic.Bool // by the command line that was tried last
)

// judged is what accepted has said before: pipelines with one fault have many lines in common.
var judged = map[string]error{}

// accepted reports whether the program takes a command line in an environment; nil is yes.
func accepted(t *testing.T, args []string, env map[string]string) (err error) {
	t.Helper()
	id := fmt.Sprintf("%q %q", args, env)
	if err, ok := judged[id]; ok {
		return err
	}
	defer func() { judged[id] = err }()
	return inEnv(env, func() error {
		a, err := app(io.Discard, io.Discard)
		if err != nil {
			return err
		}
		reached.Store(false)
		err = a.RunContext(t.Context(), argv.Arrange(a, append([]string{"orchard"}, args...)))
		if reached.Load() && (err == nil || errors.Is(err, errReached)) { // a summary takes an absent store as it is
			return nil
		}
		if err == nil {
			err = errors.New("ended without looking at its store")
		}
		return fmt.Errorf("orchard %s: %w", strings.Join(args, " "), err)
	})
}

// inEnv calls f with env, and none of the caller's variables that the program reads.
func inEnv(env map[string]string, f func() error) error {
	before := os.Environ()
	defer func() {
		os.Clearenv()
		for _, kv := range before {
			k, v, _ := strings.Cut(kv, "=")
			_ = os.Setenv(k, v) // it was set before
		}
	}()
	for _, kv := range before {
		k, _, _ := strings.Cut(kv, "=")
		for _, ours := range []string{"ORCHARD_", "SANDBOX_", "OPENAI_", "AWS_", "JOB_"} {
			if strings.HasPrefix(k, ours) {
				_ = os.Unsetenv(k) // fails for no name that was set
			}
		}
	}
	for k, v := range env {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	return f()
}

// settings is what a cluster gives every step, as the chart's ConfigMap and Secret.
func settings() map[string]string {
	return map[string]string{
		"SANDBOX_BASE_URL": "http://sandboxes.example", "SANDBOX_API_KEY": "k", "OPENAI_BASE_URL": "http://model.example/v1", "ORCHARD_LLM_MODEL": "m",
		"OPENAI_API_KEY": "k",
	}
}

// refuseStores makes every store of the test end its stage.
func refuseStores(t *testing.T) {
	was := openStore
	openStore = func(context.Context, string) (objstore.Store, error) {
		reached.Store(true)
		return nil, exit.With(exit.Gone, errReached)
	}
	t.Cleanup(func() { openStore = was })
}

// workflowFiles is the files of the workflow YAML.
func workflowFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, folder := range []string{"templates", "pipelines", "cron"} {
		names, err := fs.Glob(workflows.FS, folder+"/*.yaml")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", folder, names, err)
		}
		for _, name := range names {
			raw, err := fs.ReadFile(workflows.FS, name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(raw)
		}
	}
	return files
}

// trials are the parameters to submit a pipeline with: none but those that must be given,
// then every value of every enum, then something in every parameter.
func trials(w *pipeline.Workflow) []map[string]string {
	least := map[string]string{"tasks": "examples", "out": "s3://bucket/run", "image": "registry.example/orchard"}
	full := maps.Clone(least)
	var all []map[string]string
	for _, p := range w.Spec.Arguments.Parameters {
		for _, v := range p.Enum {
			one := maps.Clone(least)
			one[p.Name] = string(v)
			maps.Copy(one, goesWith[p.Name])
			all = append(all, one)
		}
		switch {
		case full[p.Name] != "":
		case len(p.Enum) > 0:
			full[p.Name] = string(p.Enum[len(p.Enum)-1])
		case some[p.Name] != "":
			full[p.Name] = some[p.Name]
		case p.Value != nil:
			full[p.Name] = string(*p.Value)
		}
	}
	for name := range least {
		if !slices.ContainsFunc(w.Spec.Arguments.Parameters, func(p pipeline.Parameter) bool { return p.Name == name }) {
			delete(full, name)
			for _, one := range all {
				delete(one, name)
			}
		}
	}
	return append(all, full)
}

// goesWith is what a parameter, given by itself, must have beside it.
var goesWith = map[string]map[string]string{"credit": {"keep": "graded"}}

// some is a value for parameters that are empty by themselves.
var some = map[string]string{
	"limit": "2", "filter": `language == "go" && len(fail_to_pass) > 0`, "llm-url": "https://model.example/v1", "llm-model": "m",
	"default-image": "golang:1.26", "run-id": "swe-sft-x7k2p", "shards": "7",
	"rules": "swe-rebench", "eval": "s3://bucket/eval/verified", "groups": "4", "prompts": "8", "group-size": "4", "max-tokens": "32768", "weight-version": "step-3",
	"pass-k": "1,2", "policies": "a=https://a.example/v1 b=https://b.example/v1", "baseline": "previous",
}

// problems is what is wrong with the steps of all pipelines in files: Check, a run to its
// end with steps that only say that they were there, and each step's command line.
func problems(t *testing.T, files map[string]string) error {
	lib := pipeline.Library{}
	order := slices.SortedFunc(maps.Keys(files), func(a, b string) int { // a pipeline before what starts it
		return cmp.Or(cmp.Compare(strings.Count(a, "cron/"), strings.Count(b, "cron/")), cmp.Compare(a, b))
	})
	for _, name := range order {
		if err := lib.Add(name, []byte(files[name])); err != nil {
			return err
		}
	}
	var all []error
	for _, name := range lib.Pipelines() {
		if err := lib.Check(name); err != nil {
			return err
		}
		for _, params := range trials(lib[name]) {
			var mu sync.Mutex
			_, err := pipeline.Run(t.Context(), lib, name, pipeline.Options{
				ID: name + "-x7k2p", Params: params, Pause: func(context.Context, time.Duration) error { return nil },
				Step: func(_ context.Context, s pipeline.Step) (pipeline.StepResult, error) {
					mu.Lock() // the environment is the process's
					defer mu.Unlock()
					env := settings()
					for k, v := range s.Env {
						if !strings.HasPrefix(k, "ORCHARD_OUTPUT") && k != "TMPDIR" {
							env[k] = v
						}
					}
					if err := accepted(t, s.Args, env); err != nil {
						all = append(all, fmt.Errorf("%s: %w", s.Node, err))
					}
					return pipeline.StepResult{Outputs: written(s)}, nil
				},
			})
			if err != nil {
				return fmt.Errorf("%s %v: %w", name, params, err)
			}
		}
	}
	return errors.Join(all...)
}

// written is what a step that did its work leaves in its output files.
func written(s pipeline.Step) map[string]string {
	out := map[string]string{}
	for name, path := range s.Outputs {
		switch filepath.Base(path) {
		case "dataset", "rollouts", "evaluation", "baseline":
			out[name] = "s3://bucket/run/x@" + strings.Repeat("0", 64)
		case "rows":
			out[name] = "12"
		case "shards.json":
			out[name] = `["1/3","2/3","3/3"]`
		}
	}
	return out
}

// Every step of every pipeline is a command line that this program takes, whatever
// parameters the pipeline is submitted with.
func TestPipelinesGiveStepsTheirOwnFlags(t *testing.T) {
	refuseStores(t)
	if err := problems(t, workflowFiles(t)); err != nil {
		t.Error(err)
	}
}

// The faults that the test above is for are found.
func TestWrongStepsAreFound(t *testing.T) {
	refuseStores(t)
	for _, fault := range []struct{ name, old, new string }{
		{"misspelt flag", "--harness=", "--harnes="},
		{"flag of another stage", "--keep=", "--rollouts=1\n--keep="},
		{"stage that is not there", "{name: stage, value: sft-export}", "{name: stage, value: export}"},
		{"value out of range", `{name: rollouts, value: "4"`, `{name: rollouts, value: "0"`},
		{"enum with a value that the flag does not take", "enum: [resolved, graded]", "enum: [resolved, graded, all]"},
		{"deadline that is no time", "--deadline=", "--deadline=soon"},
		{"mode that is not there", "--mode=plan", "--mode=plans"},
		{"shards where there are none", "--mode=plan", "--mode=commit"},
		{"output that a step does not write", "outputs/dataset,", "outputs/data,"},
		{"parameter that is not there", "{{workflow.parameters.keep}}", "{{workflow.parameters.kept}}"},
		{"a dataset with a version to write", "{{workflow.parameters.out}}/sft", "{{workflow.parameters.out}}/sft@1"},
		{"words that are no flags", "- --out=", "- out="},
	} {
		t.Run(fault.name, func(t *testing.T) {
			files, planted := workflowFiles(t), false
			for name, text := range files {
				files[name] = strings.ReplaceAll(text, fault.old, fault.new)
				planted = planted || files[name] != text
			}
			if !planted {
				t.Fatalf("%q is nowhere", fault.old)
			}
			if problems(t, files) == nil {
				t.Error("not found")
			}
		})
	}
}

// jobsOf is the Jobs of a file for kubectl, and its ConfigMaps.
func jobsOf(t *testing.T, raw []byte) (jobs []batch.Job, maps map[string]map[string]string) {
	t.Helper()
	maps = map[string]map[string]string{}
	var list struct {
		APIVersion, Kind string
		Items            []map[string]any
	}
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		one, err := yaml.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		var job batch.Job
		var values core.ConfigMap
		switch item["kind"] {
		case "Job":
			if err := yaml.UnmarshalStrict(one, &job); err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, job)
		case "ConfigMap":
			if err := yaml.UnmarshalStrict(one, &values); err != nil {
				t.Fatal(err)
			}
			maps[values.Name] = values.Data
		}
	}
	return jobs, maps
}

var reference = regexp.MustCompile(`\$\(([A-Za-z0-9_]+)\)`)

// jobProblems is what is wrong with the command lines of Jobs, in every index.
func jobProblems(t *testing.T, raw []byte) error {
	jobs, values := jobsOf(t, raw)
	if len(jobs) == 0 {
		return errors.New("no Jobs")
	}
	var all []error
	for _, job := range jobs {
		n := 1
		if job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batch.IndexedCompletion {
			n = int(*job.Spec.Completions)
		}
		for i := range n {
			for _, c := range job.Spec.Template.Spec.Containers {
				env := settings()
				env["JOB_COMPLETION_INDEX"] = strconv.Itoa(i)
				for _, from := range c.EnvFrom {
					if from.ConfigMapRef != nil {
						maps.Copy(env, values[from.ConfigMapRef.Name])
					}
				}
				for _, e := range c.Env {
					if e.ValueFrom == nil && e.Name != "TMPDIR" {
						env[e.Name] = e.Value
					}
				}
				var args []string
				for _, a := range c.Args {
					args = append(args, reference.ReplaceAllStringFunc(a, func(m string) string {
						v, ok := env[reference.FindStringSubmatch(m)[1]]
						if !ok {
							all = append(all, fmt.Errorf("%s: %s stands for nothing", job.Name, m))
						}
						return v
					}))
				}
				if err := accepted(t, args, env); err != nil {
					all = append(all, fmt.Errorf("%s, index %d: %w", job.Name, i, err))
				}
			}
		}
	}
	return errors.Join(all...)
}

// Every container of the Jobs has a command line that this program takes.
func TestJobsGiveStagesTheirOwnFlags(t *testing.T) {
	refuseStores(t)
	files, err := filepath.Glob("../../workflows/jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := jobProblems(t, raw); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, fault := range [][2]string{
			{"--in=$(TASKS)", "--in=$(TASK)"}, {"[distill, ", "[distil, "}, {"--mode=commit", "--mode=comit"},
			{"--shard=index/$(SHARDS)", "--shard=$(SHARDS)"}, {`ORCHARD_ROLLOUTS: "4"`, `ORCHARD_ROLLOUTS: "0"`}, {"ORCHARD_SEED: \"1\"", "ORCHARD_SEED: one"},
			{`SHARDS: "4"`, `SHARDS: "3"`},
		} {
			wrong := strings.ReplaceAll(string(raw), fault[0], fault[1])
			if filepath.Base(file) != "swe-sft.yaml" {
				continue
			}
			if wrong == string(raw) {
				t.Errorf("%s: %q is nowhere", file, fault[0])
			} else if jobProblems(t, []byte(wrong)) == nil {
				t.Errorf("%s: %q instead of %q is not found", file, fault[1], fault[0])
			}
		}
	}
}
