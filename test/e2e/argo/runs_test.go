package argo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/internal/seal"
)

// TestRuns rolls out for real.
func TestRuns(t *testing.T) {
	t.Parallel()
	begin()
	for name, run := range map[string]func(*testing.T){"Killed": killed, "Jobs": jobs, "Twice": twice} {
		t.Run(name, func(t *testing.T) {
			if name == "Twice" && !soak {
				t.Skip("make soak runs this")
			}
			t.Parallel() // what does not fit a small node waits for room
			run(t)
		})
	}
}

// parameters are those of a run of the first tasks, on a small node.
func parameters(place, runID string, tasks int) map[string]string {
	return map[string]string{
		"tasks": "examples", "out": place, "limit": fmt.Sprint(tasks), "rollouts": fmt.Sprint(rolloutsEach), "seed": seed,
		"shards": "2", "workers": "2", "run-id": runID, "sandbox-cpu-request": "50m", "sandbox-memory": "512Mi",
	}
}

// units are the ids of the rollouts of the first tasks in the order in which shards are cut of them.
func units(t testing.TB, tasks int) []string {
	t.Helper()
	ids := firstTasks(t, tasks)
	slices.Sort(ids)
	var all []string
	for _, task := range ids {
		for i := range rolloutsEach {
			all = append(all, seal.ID(task, "scripted", "mini-swe-v2", fmt.Sprint(i)))
		}
	}
	return all
}

// During one run a Pod of a stage, a sandbox, a replica of the sandbox controller and the Argo
// controller are killed, each in the midst of its work. The run goes on, repeats no finished
// rollout, commits once, and makes what one machine makes.
func killed(t *testing.T) {
	place, runID := prefix(t), unique(t)
	all := units(t, tasksUsed)
	shard := all[:len(all)/2] // of "1/2"
	s := submit(t, namespace, "swe-sft", parameters(place, runID, tasksUsed))

	// A stage: the first shard, when it has finished a rollout and has more to do.
	var victim string
	var before int
	s.until("the first shard half done", func() string {
		victim = ""
		for _, p := range s.stageOf("distill") {
			if shardOf(p) == "1/2" && p.runs("main") {
				victim = p.Metadata.Name
			}
		}
		if victim == "" {
			return "its Pod does not run"
		}
		ended, _ := finished(t, place, "rollouts")
		before = len(common(ended, shard))
		if before == len(shard) {
			t.Fatal("all of the first shard was done before it was seen: the machine is too quick for this test")
		}
		if before == 0 {
			return "no rollout of it has ended"
		}
		return ""
	})
	old := map[string]bool{}
	for _, p := range sandboxPods(t, runID) {
		old[p.Metadata.UID] = true
	}
	kill(t, namespace, victim)

	// A sandbox that somebody uses: one made since.
	inUse := func() (found pod, why string) {
		for _, p := range sandboxPods(t, runID) {
			if !old[p.Metadata.UID] && p.Status.Phase == "Running" && p.Metadata.DeletionTimestamp == nil {
				return p, ""
			}
		}
		return found, fmt.Sprintf("of %d sandboxes none is new and runs", len(sandboxPods(t, runID)))
	}
	s.until("a sandbox in use", func() string {
		p, why := inUse()
		if why == "" {
			kill(t, sandboxes, p.Metadata.Name)
			old[p.Metadata.UID] = true
		}
		return why
	})

	// A replica of the sandbox controller, while another sandbox is in use.
	s.until("another sandbox in use", func() string {
		_, why := inUse()
		return why
	})
	replicas := pods(t, namespace, "app.kubernetes.io/component=controller")
	kill(t, namespace, replicas[0].Metadata.Name)

	// The Argo controller, while rollouts go on: what runs does not need it.
	ended, _ := finished(t, place, "rollouts")
	component(t, "stop", "workflow-controller")
	t.Cleanup(func() { component(t, "start", "workflow-controller") })
	t.Log("the Argo controller is stopped")
	s.until("a rollout ended without the Argo controller", func() string {
		now, _ := finished(t, place, "rollouts")
		if len(now) > len(ended) || len(now) == len(all) {
			return ""
		}
		// When both shards wait to be started again, nobody else will.
		if !slices.ContainsFunc(s.stageOf("distill"), func(p pod) bool { return p.runs("main") }) {
			return ""
		}
		return fmt.Sprintf("%d have", len(now))
	})
	component(t, "start", "workflow-controller")

	w := s.succeeded()
	kubectl(t, "-n", namespace, "rollout", "status", "deployment", "-l", "app.kubernetes.io/component=controller", "--timeout=2m")
	now, tried := finished(t, place, "rollouts")
	t.Logf("%d Pods of distill, %d rollouts, %d tries that could not find out: %v", len(s.stageOf("distill")), len(now), len(tried), tried)
	slices.Sort(now)
	slices.Sort(all)
	if !slices.Equal(now, all) {
		t.Errorf("finished rollouts: %v, want each of %v once", now, all)
	}
	repeatsNone(t, s, before, len(all))
	once(t, place, "tasks", "rollouts", "sft", "report")
	if got := opened(t, place+"/rollouts").Location().String(); w.output("rollouts") != got {
		t.Errorf("the workflow's output says %s, the store %s", w.output("rollouts"), got)
	}
	asAlone(t, place, tasksUsed)
}

// shardOf is the shard of a Pod of distill: "" for those of plan and commit.
func shardOf(p pod) string {
	_, item, _ := strings.Cut(p.Metadata.Annotations["workflows.argoproj.io/node-name"], ":")
	item, _, _ = strings.Cut(item, ")")
	return item
}

func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// summary is the last line that a stage logs of itself.
type summary struct {
	Units *struct{ Total, Done, Reused, Retried int }
	DurMS int64 `json:"dur_ms"`
}

// summaryOf reads a stage's last line; false when it was killed before.
func summaryOf(t testing.TB, ns, name string) (last summary, ok bool) {
	t.Helper()
	out, err := command(context.Background(), "kubectl", "-n", ns, "logs", name, "-c", "main")
	if err != nil {
		return last, false
	}
	for line := range strings.Lines(out) {
		var l summary
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &l) == nil && l.DurMS > 0 && strings.Contains(line, `"rows_in"`) {
			last, ok = l, true
		}
	}
	return last, ok
}

// repeatsNone says, by what the shards themselves counted, that the Pod that came after the killed
// one found its finished rollouts, and that each rollout was finished by one Pod.
func repeatsNone(t testing.TB, s *submission, before, total int) {
	t.Helper()
	ends := map[string]summary{}
	tries := map[string]int{}
	for _, p := range s.stageOf("distill") {
		shard := shardOf(p)
		tries[shard]++
		if l, ok := summaryOf(t, s.ns, p.Metadata.Name); ok && shard != "" && l.Units != nil {
			ends[shard] = l
		}
	}
	sum := 0
	for shard, l := range ends {
		sum += l.Units.Done + l.Units.Reused
		t.Logf("shard %s: %d Pods, the last: %+v", shard, tries[shard], *l.Units)
	}
	first, ok := ends["1/2"]
	if !ok || first.Units.Reused < before {
		t.Errorf("the first shard had finished %d rollouts when it was killed, and then found only %+v", before, first.Units)
	}
	if sum != total {
		t.Errorf("the shards finished %d rollouts, want %d", sum, total)
	}
}

// Steps started twice for the same work at once, as Argo itself can start one again: both
// succeed, with the same version.
func twice(t *testing.T) {
	const tasks = 1
	place, runID := prefix(t), unique(t)
	kubectl(t, "-n", namespace, "apply", "-f", "testdata/twice.yaml")
	t.Cleanup(func() { kubectl(t, "-n", namespace, "delete", "-f", "testdata/twice.yaml", "--ignore-not-found") })
	w := submit(t, namespace, "orchard-test-twice", map[string]string{"out": place, "run-id": runID}).succeeded()
	made := map[string][]string{} // by stage
	for _, n := range w.steps() {
		made[n.input("stage")] = append(made[n.input("stage")], n.output("dataset"))
	}
	for _, stage := range []string{"import", "distill", "sft-export"} {
		if got := made[stage]; len(got) != 2 || got[0] != got[1] || got[0] == "" {
			t.Errorf("%s made %q, want one version twice", stage, got)
		}
	}
	if now, _ := finished(t, place, "rollouts"); len(now) != tasks*rolloutsEach {
		t.Errorf("%d rollouts in the store, want %d: %v", len(now), tasks*rolloutsEach, now)
	}
	once(t, place, "tasks", "rollouts", "sft")
	asAlone(t, place, tasks)
}

// TestTwoRuns is the same for whole runs: submitted twice with the same run id.
func TestTwoRuns(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	const tasks = 2
	place, runID := prefix(t), unique(t)
	a := submit(t, namespace, "swe-sft", parameters(place, runID, tasks))
	b := submit(t, namespace, "swe-sft", parameters(place, runID, tasks))
	wa, wb := a.succeeded(), b.succeeded()
	for _, name := range []string{"tasks", "rollouts", "sft", "report"} {
		if wa.output(name) != wb.output(name) || wa.output(name) == "" {
			t.Errorf("%s: one says %q, the other %q", name, wa.output(name), wb.output(name))
		}
	}
	if now, _ := finished(t, place, "rollouts"); len(now) != tasks*rolloutsEach {
		t.Errorf("%d rollouts in the store, want %d: %v", len(now), tasks*rolloutsEach, now)
	}
	once(t, place, "tasks", "rollouts", "sft", "report")
	asAlone(t, place, tasks)
}

// took is how long a node lasted.
func took(n node) time.Duration { return n.FinishedAt.Sub(n.StartedAt) }
