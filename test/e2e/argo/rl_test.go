package argo_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"orchard/datasets/record"
)

// Two rounds of reinforcement learning, in whose first a Pod that draws is killed and in whose
// second the Argo controller: the run goes on, plays no finished rollout again, and makes the
// groups and samples that one machine makes undisturbed.
func TestReinforcement(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	place, runID := prefix(t), unique(t)
	p := map[string]string{
		"tasks": "examples", "out": place, "limit": fmt.Sprint(tasksUsed), "seed": seed, "run-id": runID, "rounds": "2",
		"rollouts": "3", "min-known": "2", "at-most": "0.9", "group-size": "2", "max-draws": "6", "stride": "2", "groups": "1",
		"token-ids": "false", "workers": "2", "sandbox-cpu-request": "50m", "sandbox-memory": "512Mi",
	}
	s := submit(t, namespace, "swe-rl", p)
	drawn := func() int { return len(pieces(t, place)) }
	var before int
	s.until("a Pod of bar at work", func() string {
		for _, p := range s.stageOf("bar") {
			if p.runs("main") && shardOf(p) != "" {
				before = drawn()
				kill(t, namespace, p.Metadata.Name)
				return ""
			}
		}
		return "none runs"
	})
	s.until("the second round", func() string {
		if n := len(datasetVersions(t, place, "rl")); n == 0 {
			return "the first has no samples yet"
		}
		return ""
	})
	component(t, "stop", "workflow-controller")
	component(t, "start", "workflow-controller")
	w := s.succeeded()
	t.Logf("%d rollouts were there when the Pod was killed, %d at the end", before, drawn())
	if got := w.output("weight-version"); got == "" || w.output("llm-url") != p["llm-url"] {
		t.Errorf("the trainer's outputs are %q and %q", w.output("llm-url"), got)
	}

	local := "file://" + filepath.Join(t.TempDir(), "alone")
	undisturbed(t, "swe-rl", runID, local, p)
	for _, name := range []string{"groups", "rl"} {
		if here, there := len(datasetVersions(t, local, name)), len(datasetVersions(t, place, name)); here != 2 || there != 2 {
			t.Errorf("%s has %d versions on one machine and %d on the cluster, want one a round", name, here, there)
		}
	}
	sameRounds(t, local, place)
}

// sameRounds compares all rounds of two runs.
func sameRounds(t *testing.T, local, place string) {
	t.Helper()
	same(t, place, all[record.PassRate](t, local, "passrates"), all[record.PassRate](t, place, "passrates"), rateOf)
	same(t, place, all[record.Group](t, local, "groups"), all[record.Group](t, place, "groups"), groupOf)
	same(t, place, all[record.Rollout](t, local, "groups-rollouts"), all[record.Rollout](t, place, "groups-rollouts"), essenceOf)
	same(t, place, all[record.RLSample](t, local, "rl"), all[record.RLSample](t, place, "rl"), sampleOf)
}

// datasetVersions are the URIs of a dataset's versions.
func datasetVersions(t testing.TB, place, name string) (uris []string) {
	t.Helper()
	for _, key := range objects(t, place, name+"/versions/") {
		if digest, ok := strings.CutSuffix(strings.TrimPrefix(key, name+"/versions/"), "/manifest.json"); ok {
			uris = append(uris, place+"/"+name+"@"+digest)
		}
	}
	return uris
}

// all is the rows of all versions of a dataset.
func all[R record.Row](t testing.TB, place, name string) map[string]R {
	t.Helper()
	out := map[string]R{}
	for _, uri := range datasetVersions(t, place, name) {
		maps.Copy(out, rows[R](t, opened(t, uri)))
	}
	return out
}

// pieces are the ids of the rollouts that have ended, of whatever stage.
func pieces(t testing.TB, place string) []string {
	t.Helper()
	var ids []string
	for _, name := range []string{"passrates-rollouts", "groups-rollouts"} {
		for _, key := range objects(t, place, name+"/units/") {
			ids = append(ids, key[strings.LastIndex(key, "/")+1:])
		}
	}
	return ids
}

func drawsOf(draws []record.Draw) (out []string) {
	for _, d := range draws {
		out = append(out, fmt.Sprintln(d.RolloutID, d.Index, d.Outcome, d.Status, d.Length, d.Member))
	}
	return out
}

func rateOf(r record.PassRate) any {
	return []any{r.TaskID, r.Valid, r.Passed, r.Decision, r.Early, drawsOf(r.Draws)}
}

func groupOf(g record.Group) any {
	return []any{g.TaskID, g.Round, g.Place, g.Kind, g.Usable, g.Reason, g.WeightVersion, g.Passed, drawsOf(g.Draws)}
}

// sampleOf is what of a sample must not depend on where it was played: what commands print may.
func sampleOf(s record.RLSample) any {
	masks := []string{}
	for _, m := range s.Messages {
		masks = append(masks, fmt.Sprintln(m.Role, m.LossMask))
	}
	return []any{s.GroupID, s.GroupIndex, s.Index, s.RolloutID, s.Member, s.Members, s.Branch, s.Reward, *s.Advantage, s.Outcome, s.Status, s.WeightVersion, s.Trained, masks}
}
