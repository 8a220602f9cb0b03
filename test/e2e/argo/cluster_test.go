package argo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/test/e2e/api"
)

// command runs a program of the user's and gives what it printed on both outputs.
func command(ctx context.Context, name string, arg ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, arg...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// kubectl has to work. It is not tied to the test's context: cleanups use it too.
func kubectl(t testing.TB, arg ...string) string {
	t.Helper()
	out, err := command(context.Background(), "kubectl", arg...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(arg, " "), err, out)
	}
	return out
}

// object reads one object, or a list of them, of a namespace.
func object(ns, what string, into any) error {
	out, err := exec.Command("kubectl", "-n", ns, "get", what, "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("kubectl get %s in %s: %w%s", what, ns, err, stderr(err))
	}
	return json.Unmarshal(out, into)
}

func stderr(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return ": " + strings.TrimSpace(string(e.Stderr))
	}
	return ""
}

// pod is what the tests look at of a Pod.
type pod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		Annotations       map[string]string
		CreationTimestamp time.Time
		DeletionTimestamp *time.Time
	}
	Status struct {
		Phase             string
		ContainerStatuses []struct {
			Name  string
			Ready bool
			State struct {
				Running    *struct{ StartedAt time.Time }
				Terminated *struct {
					ExitCode              int
					Message               string
					StartedAt, FinishedAt time.Time
				}
			}
		}
	}
}

// runs says whether a container of this name runs.
func (p pod) runs(container string) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == container && c.State.Running != nil && p.Metadata.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// pods are those of a namespace with these labels, oldest first. It asks the API server itself: tests
// look every second, and a program each time would take a good part of a small machine.
func pods(t testing.TB, ns, selector string) []pod {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // cleanups ask too
	defer stop()
	var list struct{ Items []pod }
	out, err := api.Of(t).CoreV1().RESTClient().Get().Namespace(ns).Resource("pods").Param("labelSelector", selector).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		t.Fatalf("Pods of %s in %s: %v", selector, ns, err)
	}
	slices.SortStableFunc(list.Items, func(a, b pod) int { return a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp) })
	return list.Items
}

// kill removes a Pod as a lost machine would: at once.
func kill(t testing.TB, ns, name string) {
	t.Helper()
	t.Logf("kill Pod %s", name)
	kubectl(t, "-n", ns, "delete", "pod", name, "--force", "--grace-period=0")
}

// sandboxPods are the Pods of sandboxes that a run has made. What a user says of a sandbox is
// in its annotations.
func sandboxPods(t testing.TB, runID string) []pod {
	t.Helper()
	var of []pod
	for _, p := range pods(t, sandboxes, "sandbox-id") {
		for _, text := range p.Metadata.Annotations {
			if strings.Contains(text, `"`+runID+`"`) {
				of = append(of, p)
				break
			}
		}
	}
	return of
}

// component acts on a process of the test cluster, such as the Argo controller.
func component(t testing.TB, verb, name string) {
	t.Helper()
	if out, err := command(context.Background(), "../../cluster/component.sh", verb, name); err != nil {
		t.Fatalf("%s %s: %v: %s", verb, name, err, out)
	}
}

// explain shows, when the test has failed, what a person would look at.
func explain(t testing.TB, ns, selector string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, arg := range [][]string{
			{"get", "pods", "-l", selector, "-o", "wide"},
			{"logs", "-l", selector, "-c", "main", "--prefix", "--tail=30", "--ignore-errors"},
			{"get", "events", "--sort-by=.lastTimestamp"},
		} {
			out, err := command(context.Background(), "kubectl", append([]string{"-n", ns}, arg...)...)
			if lines := strings.Split(out, "\n"); arg[1] == "events" && len(lines) > 40 {
				out = strings.Join(lines[len(lines)-40:], "\n")
			}
			t.Logf("=== kubectl %s (%v)\n%s", strings.Join(arg, " "), err, out)
		}
	})
}
