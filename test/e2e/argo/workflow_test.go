package argo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// workflow is what the tests look at of Argo's object.
type workflow struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase, Message        string
		StartedAt, FinishedAt time.Time
		Nodes                 map[string]node
		Outputs               struct{ Parameters []parameter }
	}
}

type parameter struct{ Name, Value string }

// node is a step, or what holds steps together.
type node struct {
	ID, DisplayName, Name, Type, Phase, Message, TemplateName string
	StartedAt, FinishedAt                                     time.Time
	Inputs, Outputs                                           struct{ Parameters []parameter }
}

func (n node) input(name string) string  { return valueOf(name, n.Inputs.Parameters) }
func (n node) output(name string) string { return valueOf(name, n.Outputs.Parameters) }

func valueOf(name string, of []parameter) string {
	for _, p := range of {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// nodes are the steps with a Pod, in the order of their starts.
func (w workflow) steps() []node {
	all := slices.SortedFunc(maps.Values(w.Status.Nodes), func(a, b node) int { return a.StartedAt.Compare(b.StartedAt) })
	return slices.DeleteFunc(all, func(n node) bool { return n.Type != "Pod" })
}

// output is a parameter of the whole workflow.
func (w workflow) output(name string) string {
	for _, n := range w.Status.Nodes {
		if n.Name == w.Metadata.Name {
			return n.output(name)
		}
	}
	return ""
}

// submission is a workflow that a test has submitted.
type submission struct {
	t        testing.TB
	ns, name string
	ended    chan struct{} // `argo submit --wait` has returned
	said     string        // what it printed
	err      error
}

// submit does what a user types: argo submit --from workflowtemplate/TEMPLATE -p … --wait. It
// returns at once; end waits. On failure everything about the workflow is shown.
func submit(t testing.TB, ns, template string, p map[string]string, more ...string) *submission {
	t.Helper()
	name := unique(t)
	arg := []string{"submit", "-n", ns, "--from", "workflowtemplate/" + template, "--name", name, "--wait"}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		arg = append(arg, "-p", name+"="+p[name])
	}
	return follow(t, ns, name, append(arg, more...)...)
}

// follow runs an `argo` command that ends with the workflow.
func follow(t testing.TB, ns, name string, arg ...string) *submission {
	t.Helper()
	s := &submission{t: t, ns: ns, name: name, ended: make(chan struct{})}
	t.Logf("argo %s", strings.Join(arg, " "))
	t.Cleanup(func() {
		if out, err := command(context.Background(), "argo", "delete", "-n", ns, s.name); err != nil && !strings.Contains(out, "not found") {
			t.Errorf("argo delete: %v: %s", err, out)
		}
	})
	explain(t, ns, "workflows.argoproj.io/workflow="+s.name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("=== argo %s: %v\n%s\n=== argo get\n%s", arg[0], s.err, s.said, s.get())
		}
	})
	cmd := exec.CommandContext(t.Context(), "argo", arg...)
	go func() {
		defer close(s.ended)
		out, err := cmd.CombinedOutput()
		s.said, s.err = string(out), err
	}()
	return s
}

// unique is a name of its own for a test's object.
func unique(t testing.TB) string {
	name := strings.ToLower(t.Name())
	name = strings.TrimPrefix(name[strings.LastIndex(name, "/")+1:], "test")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("%.28s-%x", strings.Trim(name, "-"), time.Now().UnixNano()&0xffffffffff)
}

// get is what `argo get` shows.
func (s *submission) get() string {
	out, err := command(context.Background(), "argo", "get", "-n", s.ns, s.name)
	if err != nil {
		return fmt.Sprintf("argo get: %v: %s", err, out)
	}
	return out
}

// now is the workflow as it is; false when there is none yet.
func (s *submission) now() (workflow, bool) {
	s.t.Helper()
	var w workflow
	out, err := exec.Command("argo", "get", "-n", s.ns, s.name, "-o", "json").Output()
	if err != nil {
		if said := stderr(err); strings.Contains(said, "not found") {
			return w, false
		}
		s.t.Fatalf("argo get: %v%s", err, stderr(err))
	}
	if err := json.Unmarshal(out, &w); err != nil {
		s.t.Fatal(err)
	}
	return w, true
}

// stageOf are the Pods of one stage of the workflow, oldest first.
func (s *submission) stageOf(stage string) []pod {
	s.t.Helper()
	return pods(s.t, s.ns, "workflows.argoproj.io/workflow="+s.name+",orchard/stage="+stage)
}

// until waits for a state while the workflow runs: one that has ended will not get there.
func (s *submission) until(what string, try func() string) {
	s.t.Helper()
	eventually(s.t, what, func() string {
		why := try()
		select {
		case <-s.ended:
			if why != "" {
				s.t.Fatalf("the workflow ended before %s: %s", what, why)
			}
		default:
		}
		return why
	})
}

// end waits until the workflow has ended and is the whole of it.
func (s *submission) end(within time.Duration) workflow {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(within):
		s.t.Fatalf("the workflow has not ended after %v", within)
	}
	w, ok := s.now()
	if !ok {
		s.t.Fatalf("there is no workflow: argo: %v: %s", s.err, s.said)
	}
	return w
}

// succeeded is end for a workflow that has to succeed, and `argo submit --wait` with it.
func (s *submission) succeeded() workflow {
	s.t.Helper()
	w := s.end(2 * patience)
	if s.err != nil || w.Status.Phase != "Succeeded" {
		s.t.Fatalf("argo: %v; the workflow is %s: %s", s.err, w.Status.Phase, w.Status.Message)
	}
	return w
}
