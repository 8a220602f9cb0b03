package admit

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"

	"orchard/jobs/admit/rule"
)

// flakyBeside is an id as task sets may have it: it names no file and no object.
const flakyBeside = "flaky/beside 'x' é"

// plant is a task with a fault, or without, and what has to become of it.
type plant struct {
	name string
	project
	reason      string // "" is admitted
	detail      string
	gold, empty int // runs that are done
}

var planted = []plant{
	{name: "healthy", gold: 2, empty: 2},
	{name: flakyBeside, project: project{more: `r true "$(od -An -N8 -tx8 /dev/urandom)"`}, gold: 2, empty: 2},
	{name: "broken_gold", project: project{add: "echo $(($1 + $2 * ($2 > 0)))\n"}, reason: rule.GoldUnresolved, detail: "negative failed", gold: 2},
	{name: "stale_gold", project: project{edit: func(t *record.Task) {
		t.GoldPatch.Value = strings.Replace(t.GoldPatch.Value, "$1 - $2", "$1 - $3", 1)
	}}, reason: rule.GoldPatchFailed, detail: "does not apply", gold: 1},
	{name: "no_gold", project: project{edit: func(t *record.Task) { t.GoldPatch = record.Text{} }}, reason: rule.GoldPatchEmpty, gold: 1},
	{name: "no_op_test", project: project{edit: func(t *record.Task) { t.FailToPass, t.PassToPass = []string{"keeps"}, []string{"adds"} }},
		reason: rule.NoFailToPass, detail: "every test of fail_to_pass passes", gold: 1, empty: 2},
	{name: "no_fail_to_pass", project: project{edit: func(t *record.Task) { t.FailToPass = []string{} }}, reason: rule.NoFailToPass, detail: "is empty"},
	{name: "missing_test", project: project{edit: func(t *record.Task) { t.PassToPass = append(t.PassToPass, "gone") }},
		reason: rule.GoldUnresolved, detail: "gone missing", gold: 2},
	{name: "needs_network", project: project{more: `r 'bash -c "exec 3<>/dev/tcp/198.18.0.1/80"' fetches`, edit: func(t *record.Task) {
		t.PassToPass = append(t.PassToPass, "fetches")
	}}, reason: rule.GoldUnresolved, detail: "may want a network", gold: 2},
	{name: "slow", project: project{more: "sleep 600", edit: func(t *record.Task) { t.TimeoutMS = 1000 }}, reason: rule.TestTimeout, detail: "did not end", gold: 2},
	{name: "hangs_without", project: project{more: `[ "$(sh add.sh 2 3)" = 5 ] || sleep 600`, edit: func(t *record.Task) { t.TimeoutMS = 1500 }},
		reason: rule.TestTimeout, detail: "without a patch", gold: 1, empty: 2},
	{name: "no_runner", project: project{edit: func(t *record.Task) { t.TestCmds = []string{"no-such-runner"} }}, reason: rule.NoTestsRan, detail: "no-such-runner", gold: 2},
	{name: "bad_image", project: project{edit: func(t *record.Task) { t.Image = "/no/such/image.tar" }}, reason: rule.ImageRefused, detail: "refused", gold: 1},
	{name: "bad_parser", project: project{edit: func(t *record.Task) { t.LogParser = "x" }}, reason: rule.TaskInvalid, detail: "log_parser", gold: 1},
	{name: "bad_commit", project: project{edit: func(t *record.Task) { t.BaseCommit = strings.Repeat("1", 40) }}, reason: rule.TaskInvalid, gold: 1},
}

// No task with a fault is admitted, every healthy one is, and each says why.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	var tasks []record.Task
	for _, p := range planted {
		tasks = append(tasks, m.task(p.name, p.project))
	}
	c := s.config(m.dataset(store, sha, "tasks", tasks...), "admission")
	c.Repeats = 2
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	got := rows(t, res.URI)
	for _, p := range planted {
		a := got[p.name]
		if a.Admitted != (p.reason == "") || a.Reason != p.reason || !strings.Contains(a.Detail, p.detail) {
			t.Errorf("%s: admitted %v, %s: %s; want %q with %q", p.name, a.Admitted, a.Reason, a.Detail, p.reason, p.detail)
		}
		if len(a.GoldRuns) != p.gold || len(a.EmptyRuns) != p.empty {
			t.Errorf("%s: %d and %d runs, want %d and %d", p.name, len(a.GoldRuns), len(a.EmptyRuns), p.gold, p.empty)
		}
		if a.Source != "planted" || a.Repo != "o/r" || a.Language != "shell" || a.Image == "" || a.Grader == "" || a.ContentSHA256 == "" || a.Repeats != 2 {
			t.Errorf("%s: a row with gaps: %+v", p.name, a)
		}
		for _, r := range slices.Concat(a.GoldRuns, a.EmptyRuns) {
			if r.Reason == "" || r.Outcome == "" || r.DurationMS <= 0 && r.TestsMS != nil {
				t.Errorf("%s: a run with gaps: %+v", p.name, r)
			}
		}
	}
	healthy := got["healthy"]
	if len(healthy.EmptyRuns) != 2 || len(healthy.EmptyRuns[0].NotPassed) != 2 || len(healthy.GoldRuns[0].NotPassed) != 0 || healthy.FlakyCount != 0 {
		t.Errorf("evidence of a healthy task: %+v", healthy)
	}
	if log := body(t, store, healthy.GoldRuns[0].Log); !strings.Contains(log, "ok 2 - adds") {
		t.Errorf("log %q", log)
	}
	if healthy.TestsMedianMS == nil || healthy.TestsMaxMS == nil || *healthy.TestsMaxMS < *healthy.TestsMedianMS || healthy.TotalMS < *healthy.TestsMaxMS {
		t.Errorf("times of a healthy task: %+v", healthy)
	}
	if f := got[flakyBeside]; f.FlakyCount != 4 || f.Flaky[0].Kind != "" || len(f.Flaky[0].Gold) != 2 || len(f.GoldRuns[1].Differs) != 2 {
		t.Errorf("four names that each come once: %+v", f)
	}
	if hint := got["needs_network"].NetworkHint; !strings.Contains(strings.ToLower(hint), "network is unreachable") {
		t.Errorf("network hint %q", hint)
	}
	if n := res.Outcomes; n[Admitted] != 2 || n[rule.GoldUnresolved] != 3 || res.RowsOut != int64(len(planted)) {
		t.Errorf("outcomes %v of %d rows", n, res.RowsOut)
	}
	var names []string
	for _, f := range res.Files {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"admission.json", "admission.md"}) {
		t.Errorf("files %v", names)
	}

	// Other rules judge the same runs: those that are there are not done again.
	made := s.made.Load()
	c.Out, c.HangFails, c.Strict = c.Out+"-2", true, true
	res, err = Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	other := rows(t, res.URI)
	if a := other["hangs_without"]; !a.Admitted || len(a.EmptyRuns) != 2 {
		t.Errorf("with --hang-fails: %s: %s", a.Reason, a.Detail)
	}
	if a := other[flakyBeside]; a.Reason != rule.GoldFlaky || a.FlakyCount == 0 {
		t.Errorf("with --strict: %s: %s", a.Reason, a.Detail)
	}
	if n := s.made.Load() - made; n != 1 {
		t.Errorf("%d sandboxes for the one run that was left out before", n)
	}
	same := func(a, b record.Admission) bool { return a.ContentSHA256 == b.ContentSHA256 && a.TotalMS == b.TotalMS }
	if !maps.EqualFunc(pick(got, "healthy", "broken_gold"), pick(other, "healthy", "broken_gold"), same) {
		t.Error("runs that were reused are not the same")
	}
}

func pick(all map[string]record.Admission, names ...string) map[string]record.Admission {
	some := map[string]record.Admission{}
	for _, n := range names {
		some[n] = all[n]
	}
	return some
}

// A required test that is true half the time, whatever the code, is found out. With 12
// repeats it is admitted by luck when it says the same in all runs of both arms: as
// pass_to_pass with 2^-12 * 2^-11, about 1 in 8 million; as the only fail_to_pass with
// 2^-12 * 2^-12.
func TestFlakyTasksAreNotAdmitted(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	wavering := "r '" + random + "' wavers"
	pass := m.task("pass_to_pass", project{more: wavering, edit: func(t *record.Task) { t.PassToPass = append(t.PassToPass, "wavers") }})
	fail := m.task("fail_to_pass", project{more: wavering, edit: func(t *record.Task) {
		t.FailToPass, t.PassToPass = []string{"wavers"}, []string{"keeps", "adds", "negative"}
	}})
	c := s.config(m.dataset(store, sha, "tasks", pass, fail), "admission")
	c.Repeats = 12
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range rows(t, res.URI) {
		// Two runs of the gold patch that fail by luck look like one that never works.
		if a.Admitted || !slices.Contains([]string{rule.GoldFlaky, rule.EmptyFlaky, rule.GoldUnresolved, rule.NoFailToPass}, a.Reason) {
			t.Errorf("%s: admitted %v, %s: %s", name, a.Admitted, a.Reason, a.Detail)
		}
		if flaky := a.Reason == rule.GoldFlaky || a.Reason == rule.EmptyFlaky; flaky && !slices.ContainsFunc(a.Flaky, func(f record.FlakyTest) bool { return f.Name == "wavers" }) {
			t.Errorf("%s: the flaky test is not named: %+v", name, a.Flaky)
		}
	}
}

// The image of the flags is the user's mistake and no task's.
func TestABadDefaultImageEndsTheStage(t *testing.T) {
	t.Parallel()
	s, m := newService(t), newMaker(t)
	store, sha := m.store()
	c := s.config(m.dataset(store, sha, "tasks", m.task("t", project{})), "admission")
	c.DefaultImage = "/no/such/image.tar"
	if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Config {
		t.Errorf("exit code %d: %v", exit.Code(err), err)
	}
	if _, err := datasets.Open(t.Context(), datasets.Stores, c.Out); err == nil {
		t.Error("a version was committed")
	}
}
