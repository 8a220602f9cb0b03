package argo_test

import (
	"maps"
	"path/filepath"
	"testing"

	"orchard/datasets/record"
)

// The pipelines beside swe-sft, each on a task or two so that they run beside other tests: they
// make what one machine makes. make soak runs the greater ones.
func TestPipelines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rare     bool
		pipeline string
		p        map[string]string
		equal    func(t *testing.T, alone, place string)
	}{
		{false, "swe-tasks", map[string]string{"limit": "1", "repeats": "1"}, func(t *testing.T, alone, place string) {
			same(t, place, all[record.Admission](t, alone, "admissions"), all[record.Admission](t, place, "admissions"), admissionOf)
			for _, name := range []string{"filtered", "unique"} {
				same(t, place, all[record.Task](t, alone, name), all[record.Task](t, place, name), func(r record.Task) any { return r })
			}
		}},
		{false, "swe-eval", map[string]string{"limit": "1"}, func(t *testing.T, alone, place string) {
			same(t, place, all[record.Rollout](t, alone, "eval"), all[record.Rollout](t, place, "eval"), essenceOf)
			same(t, place, all[record.Evaluation](t, alone, "eval-evaluation"), all[record.Evaluation](t, place, "eval-evaluation"), sayingsOf)
		}},
		{true, "swe-rl", map[string]string{
			"rounds": "1", "rollouts": "1", "min-known": "1", "at-most": "1", "group-size": "2", "max-draws": "4", "stride": "2", "groups": "1", "token-ids": "false",
		}, sameRounds},
	} {
		t.Run(c.pipeline, func(t *testing.T) {
			if c.rare && !soak {
				t.Skip("make soak runs this")
			}
			t.Parallel()
			place, alone, runID := prefix(t), "file://"+filepath.Join(t.TempDir(), "alone"), unique(t)
			p := map[string]string{
				"tasks": "examples", "out": place, "limit": "2", "seed": seed, "run-id": runID, "workers": "1",
				"sandbox-cpu-request": "50m", "sandbox-memory": "512Mi",
			}
			maps.Copy(p, c.p)
			s := submit(t, namespace, c.pipeline, p)
			undisturbed(t, c.pipeline, runID, alone, p)
			s.succeeded()
			c.equal(t, alone, place)
		})
	}
}

// admissionOf is what of an admission must not depend on where it was found out.
func admissionOf(r record.Admission) any {
	return []any{r.TaskID, r.Admitted, r.Reason, len(r.GoldRuns), len(r.EmptyRuns), r.FlakyCount}
}
