package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"orchard/internal/exit"
)

// maxDepth ends a recursion that no condition ends.
const maxDepth = 100

// Options are what a run needs besides its library.
type Options struct {
	ID       string                                                // of the run: {{workflow.name}}
	Params   map[string]string                                     // over the pipeline's own values
	Step     func(ctx context.Context, s Step) (StepResult, error) // runs one container step
	Event    func(Event)                                           // may be nil; called from several goroutines
	Parallel int                                                   // steps at a time on this machine; 0 is no limit beside the workflow's
	Pause    func(ctx context.Context, d time.Duration) error      // waits before a retry; nil waits for real
	Now      func() time.Time                                      // nil is time.Now
}

// Step is one container step, ready to run.
type Step struct {
	Node    string // its place: "swe-sft/import", "swe-sft/distill/run(3)"
	Args    []string
	Env     map[string]string
	Attempt int               // 0-based
	Outputs map[string]string // output parameter -> the path the YAML names
}

// StepResult is a step that ran to its end. Outputs holds the files that it wrote.
type StepResult struct {
	ExitCode int
	Message  string // the last words of a failed step
	Outputs  map[string]string
}

// Event is a change of a node, for progress and records.
type Event struct {
	Node    string    `json:"node"`
	Phase   Phase     `json:"phase"`
	Attempt int       `json:"attempt,omitempty"`
	Code    int       `json:"exit_code,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	Leaf    bool      `json:"leaf"` // a container step, not a group
}

// Result is how a run ended.
type Result struct {
	Phase   Phase
	Outputs map[string]string // of the entrypoint
	Failed  []Event           // leaves that failed for good, in order of their end
}

type run struct {
	Options
	lib    Library
	root   *Workflow
	global scope
	slots  chan struct{}

	mu     sync.Mutex
	failed []Event
}

// Run runs pipeline name of the library to its end. The error is nil when it
// succeeded; otherwise it names the failed steps and carries the exit code of the
// first of them.
func Run(ctx context.Context, lib Library, name string, o Options) (Result, error) {
	w := lib[name]
	if w == nil || w.Spec.Entrypoint == "" {
		return Result{}, exit.Configf("no pipeline %q; there are: %s", name, strings.Join(lib.Pipelines(), ", "))
	}
	params, err := w.parameters(o.Params)
	if err != nil {
		return Result{}, exit.With(exit.Config, err)
	}
	if err := lib.Check(name); err != nil {
		return Result{}, exit.With(exit.Config, err)
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &run{Options: o, lib: lib, root: w, global: scope{"workflow.name": o.ID, "workflow.uid": o.ID, "workflow.namespace": "local"}}
	for k, v := range params {
		r.global["workflow.parameters."+k] = v
	}
	if n := leastPositive(w.Spec.Parallelism, o.Parallel); n > 0 {
		r.slots = make(chan struct{}, n)
	}
	res, err := r.workflow(ctx)
	if err == nil && res.Phase != Succeeded {
		err = r.failure(ctx)
	}
	return res, err
}

// workflow runs the entrypoint, then onExit, which runs whatever happened.
func (r *run) workflow(ctx context.Context) (Result, error) {
	main, cancel, err := withDeadline(ctx, r.global, r.root.Spec.ActiveDeadlineSeconds)
	if err != nil {
		return Result{}, err
	}
	defer cancel()
	started := r.Now()
	end := r.template(main, call{node: r.root.Metadata.Name, workflow: r.root, name: r.root.Spec.Entrypoint})
	res := Result{Phase: end.phase, Outputs: end.outputs}
	if end.err != nil {
		return res, end.err
	}
	if r.root.Spec.OnExit != "" && ctx.Err() == nil {
		r.global["workflow.status"] = string(end.phase)
		r.global["workflow.duration"] = fmt.Sprintf("%f", r.Now().Sub(started).Seconds())
		last := r.template(ctx, call{node: r.root.Metadata.Name + ".onExit", workflow: r.root, name: r.root.Spec.OnExit})
		if last.err != nil {
			return res, last.err
		}
		if last.phase.Bad() {
			res.Phase = last.phase
		}
	}
	res.Failed = r.failed
	return res, nil
}

// call is one use of a template.
type call struct {
	node     string
	workflow *Workflow
	name     string
	ref      *TemplateRef
	args     scope // parameter name -> value
	depth    int
}

// ended is what became of a call. err is a fault of the YAML or of this machine, and
// ends the run; a step that failed is only a phase.
type ended struct {
	phase   Phase
	outputs map[string]string
	err     error
}

func (r *run) template(ctx context.Context, c call) ended {
	if c.depth > maxDepth {
		return ended{phase: Error, err: exit.Configf("%s: templates call each other more than %d deep: does the when of the recursion ever become false?", c.node, maxDepth)}
	}
	w, t, err := r.lib.template(c.workflow, c.name, c.ref)
	if err != nil {
		return ended{phase: Error, err: fmt.Errorf("%s: %w", c.node, err)}
	}
	in := r.global
	for _, p := range t.Inputs.Parameters {
		v, ok := c.args[p.Name]
		switch {
		case ok:
		case p.Value != nil:
			v = string(*p.Value)
		case p.Default != nil:
			v = string(*p.Default)
		default:
			return ended{phase: Error, err: exit.Configf("%s: template %s needs the argument %q", c.node, t.Name, p.Name)}
		}
		in = in.with(scope{"inputs.parameters." + p.Name: v})
	}
	tctx, cancel, err := withDeadline(ctx, in, t.ActiveDeadlineSeconds)
	if err != nil {
		return ended{phase: Error, err: fmt.Errorf("%s: %w", c.node, err)}
	}
	defer cancel()
	if t.DAG != nil {
		return r.dag(tctx, c, w, t, in)
	}
	return r.step(tctx, c, t, in)
}

func (r *run) event(e Event) {
	e.Time = r.Now()
	if e.Leaf && e.Phase.Bad() {
		r.mu.Lock()
		r.failed = append(r.failed, e)
		r.mu.Unlock()
	}
	if r.Event != nil {
		r.Event(e)
	}
}

// failure is the error of a run whose steps failed.
func (r *run) failure(ctx context.Context) error {
	if ctx.Err() != nil {
		return exit.With(exit.Retry, fmt.Errorf("pipeline %s stopped: %w", r.root.Metadata.Name, context.Cause(ctx)))
	}
	if len(r.failed) == 0 {
		return errors.New("pipeline failed without a failed step")
	}
	var lines []string
	for _, e := range r.failed {
		lines = append(lines, fmt.Sprintf("%s: exit code %d: %s", e.Node, e.Code, e.Message))
	}
	return exit.With(r.failed[0].Code, errors.New(strings.Join(lines, "\n")))
}

// parameters are the workflow's own values with the given ones over them; one that is
// missing, unknown or outside its enum is an error.
func (w *Workflow) parameters(given map[string]string) (map[string]string, error) {
	values := map[string]string{}
	var problems, names []string
	for _, p := range w.Spec.Arguments.Parameters {
		names = append(names, p.Name)
		v, ok := given[p.Name]
		if !ok && p.Value != nil {
			v, ok = string(*p.Value), true
		}
		if !ok && p.ValueFrom != nil && p.ValueFrom.ConfigMapKeyRef != nil {
			ok = true
		}
		if !ok {
			problems = append(problems, fmt.Sprintf("-p %s=… is missing (%s)", p.Name, p.Description))
			continue
		}
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, Scalar(v)) {
			problems = append(problems, fmt.Sprintf("-p %s=%s: must be one of %v", p.Name, v, p.Enum))
		}
		values[p.Name] = v
	}
	for name := range given {
		if !slices.Contains(names, name) {
			problems = append(problems, fmt.Sprintf("-p %s: pipeline %s has no such parameter; it has: %s", name, w.Metadata.Name, strings.Join(names, ", ")))
		}
	}
	if problems != nil {
		slices.Sort(problems)
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	return values, nil
}

func leastPositive(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
