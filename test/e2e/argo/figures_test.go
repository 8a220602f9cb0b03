package argo_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/test/e2e/figures"
)

// What a run costs beside its rollouts: time of the Pods around the stages, Pods, and objects.
func TestFigures(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	const tasks, rollouts = 7, 4
	place, runID := prefix(t), unique(t)
	p := parameters(place, runID, tasks)
	p["rollouts"] = "4"
	s := submit(t, namespace, "swe-sft", p)
	w := s.succeeded()

	type cost struct {
		pods         int
		wall, inside time.Duration
	}
	stages := map[string]*cost{}
	var order []string
	for _, n := range w.steps() {
		stage := n.input("stage")
		if mode := modeOf(n.input("options")); mode != "" {
			stage += " " + mode
		}
		if stages[stage] == nil {
			stages[stage] = &cost{}
			order = append(order, stage)
		}
		c := stages[stage]
		c.pods++
		c.wall += took(n)
		if l, ok := summaryOf(t, s.ns, podOf(t, s, n)); ok {
			c.inside += time.Duration(l.DurMS) * time.Millisecond
		}
	}
	total := 0
	for _, stage := range order {
		c := stages[stage]
		total += c.pods
		figures.Tell(t, "stage %s: %d Pods, %v as Argo sees them, %v at work; %v a Pod around it", stage, c.pods, c.wall.Round(time.Second),
			c.inside.Round(10*time.Millisecond), ((c.wall - c.inside) / time.Duration(c.pods)).Round(100*time.Millisecond))
	}
	n := tasks * rollouts
	var model time.Duration
	for _, r := range rows[record.Rollout](t, opened(t, place+"/rollouts")) {
		for _, step := range r.Trajectory.Steps {
			model += time.Duration(step.ModelMS) * time.Millisecond
		}
	}
	figures.Tell(t, "swe-sft, %d rollouts in 2 shards: %v in all, of it waiting for the model %v over all rollouts; %d Pods of stages, however many rollouts a shard has: with 1,000 rollouts in 8 shards %d",
		n, w.Status.FinishedAt.Sub(w.Status.StartedAt), model.Round(time.Second), total, total-2+8)
	kinds := map[string]int{}
	for _, key := range objects(t, place, "") {
		parts := strings.Split(key, "/")
		kind := parts[0]
		if len(parts) > 1 && kind != "blobs" {
			kind += "/" + parts[1]
		}
		kinds[kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		figures.Tell(t, "objects %s: %d (%.2f a rollout)", kind, kinds[kind], float64(kinds[kind])/float64(n))
	}
}

// modeOf is how a step of a sharded stage says what part of it it is.
func modeOf(options string) string {
	for _, line := range strings.Fields(options) {
		if mode, ok := strings.CutPrefix(line, "--mode="); ok {
			return mode
		}
		if strings.HasPrefix(line, "--shard=") {
			return "shard"
		}
	}
	return ""
}

// podOf is the Pod of a node.
func podOf(t *testing.T, s *submission, n node) string {
	t.Helper()
	for _, p := range pods(t, s.ns, "workflows.argoproj.io/workflow="+s.name) {
		if p.Metadata.Annotations["workflows.argoproj.io/node-id"] == n.ID {
			return p.Metadata.Name
		}
	}
	return ""
}

// percentile orders the times.
func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[min(len(all)-1, len(all)*p/100)].Round(100 * time.Millisecond)
}
