package admit

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/grade"

	"orchard/jobs/admit/rule"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// What is made of given runs changes only with Version.
func TestRowsGolden(t *testing.T) {
	t.Parallel()
	j := judge{cfg: Defaults()}
	task := record.Task{TaskID: "a/b", Source: "s", Repo: "o/r", Language: "go", BaseCommit: "c", Workdir: "/testbed", TestCmds: []string{"t"},
		PreCommands: []string{}, LogParser: "tap", FailToPass: []string{"f"}, PassToPass: []string{"p"}, Raw: "x", Statement: "words"}
	said := func(o record.Outcome, f, p, x string, ms int64) rule.Run {
		peak := ms << 20
		return rule.Run{Outcome: o, Reason: "because", All: map[string]string{"f": f, "p": p, "x": x}, Network: "no such host", DurationMS: 2 * ms, TestsMS: &ms, PeakBytes: &peak,
			Required: []record.TestResult{{Name: "f", Kind: grade.FailToPass, Status: f}, {Name: "p", Kind: grade.PassToPass, Status: p}}}
	}
	good, broken := said(record.Resolved, "passed", "passed", "passed", 10), said(record.Unresolved, "failed", "passed", "skipped", 30)
	odd := said(record.Resolved, "passed", "passed", "failed", 20)
	var all []record.Admission
	for _, runs := range [][2][]rule.Run{
		{{good, odd, good}, {broken, broken, broken}},
		{{broken, broken}, nil},
		{{good, broken}, {broken}},
		{{good}, {good, good}},
		{nil, nil},
	} {
		content, err := j.content(task)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j.row(task, content, j.rule().Judge(runs[0], runs[1]), runs[0], runs[1]))
	}
	got, err := json.MarshalIndent(map[string]any{"version": Version, "settings": j.cfg.settings(), "rows": all}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const name = "testdata/rows.golden.json"
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the rows changed; a change needs a new Version, then -update. Got\n%s", got)
	}
}

// All that decides a grading is in its hash, and nothing that is only said.
func TestContent(t *testing.T) {
	t.Parallel()
	base := record.Task{TaskID: "t", BaseCommit: "c", TestCmds: []string{"t"}}
	sum := func(j judge, change func(*record.Task)) string {
		task := base
		if change != nil {
			change(&task)
		}
		s, err := j.content(task)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	j := judge{cfg: Defaults()}
	seen := map[string]string{sum(j, nil): "nothing"}
	for name, change := range map[string]func(*record.Task){
		"base": func(t *record.Task) { t.BaseCommit = "d" }, "repo": func(t *record.Task) { t.RepoBlob = "d" }, "image": func(t *record.Task) { t.Image = "d" },
		"workdir": func(t *record.Task) { t.Workdir = "d" }, "pre": func(t *record.Task) { t.PreCommands = []string{"d"} }, "gold": func(t *record.Task) { t.GoldPatch.Value = "d" },
		"gold blob": func(t *record.Task) { t.GoldPatch.Blob = "d" }, "tests": func(t *record.Task) { t.TestPatch.Value = "d" }, "cmds": func(t *record.Task) { t.TestCmds = []string{"d"} },
		"parser": func(t *record.Task) { t.LogParser = "d" }, "f2p": func(t *record.Task) { t.FailToPass = []string{"d"} }, "p2p": func(t *record.Task) { t.PassToPass = []string{"d"} },
		"timeout": func(t *record.Task) { t.TimeoutMS = 7 },
	} {
		s := sum(j, change)
		if other, ok := seen[s]; ok {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[s] = name
	}
	other := judge{cfg: Defaults()}
	other.cfg.DefaultImage = "d"
	if sum(other, nil) != sum(j, func(t *record.Task) { t.Image = "d" }) {
		t.Error("the default image is not the image")
	}
	said := sum(j, func(t *record.Task) {
		t.TaskID, t.Statement, t.Hints, t.Raw, t.Digest, t.Source = "u", "d", "d", "d", "d", "d"
	})
	if said != sum(j, nil) {
		t.Error("what is only said changes the hash")
	}
}

func TestWantsNetwork(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"ok 1\n  curl: (6) Could not resolve host: example.org\nmore": "curl: (6) Could not resolve host: example.org",
		"dial tcp: lookup x: no such host\r\n":                        "dial tcp: lookup x: no such host",
		"connect: connection refused 127.0.0.1:80\nok 1\n":            "",
		"": "",
	} {
		if got := wantsNetwork([]byte(log)); got != want {
			t.Errorf("%q: %q", log, got)
		}
	}
}
