package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// loaded is a rule file of these lines.
func loaded(text string) (*Program, error) {
	none := func(path string) ([]byte, error) { return nil, os.ErrNotExist }
	return Load("my.yaml", []byte(text), nil, none, none)
}

// rule is a file of one rule, the expression under keep.
func rule(expression string, more ...string) string {
	return "rules:\n  - name: r\n    keep: '" + strings.ReplaceAll(expression, "'", "''") + "'\n    " + strings.Join(more, "\n    ") + "\n"
}

func task() record.Task {
	at := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	return record.Task{
		TaskID: "o__r-7", Repo: "o/r", Language: "go", CreatedAt: &at, Statement: "It breaks, naïvely so.", FailToPass: []string{"A"}, PassToPass: []string{},
		GoldPatch: record.Text{Value: "diff --git a/x.go b/x.go\n--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,3 @@\n-a\n+b\n+c\n d\n"},
		Goal:      &record.Goal{Kind: record.GoalWeb, StartURL: "https://www.Shop.Example.co.uk:8443/x?y=1", ParentID: "p"},
		Raw:       `{"n":3,"f":0.5,"yes":true,"null":null,"meta":{"score":7,"deep":{"x":"y"}},"text_meta":"{\"score\":9}","list":[1,2],"word":"go"}`,
	}
}

// Every kind of thing that a rule can ask, on a row that has it and on one that has not.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr       string
		full, bare answer
	}{
		{`language == "go"`, yes, dontKnow},
		{`not (language == "go")`, no, dontKnow},
		{`language != "go"`, no, dontKnow},
		{`created_at < date("2025-06-01")`, yes, dontKnow},
		{`created_at < date("2025-06-01") || task_id != ""`, yes, yes},
		{`task_id != "" || created_at < date("2025-06-01")`, yes, yes},
		{`created_at < date("2025-06-01") && task_id == ""`, no, no},
		{`task_id == "" and created_at < date("2025-06-01")`, no, no},
		{`has(created_at) && created_at > date("2020-01-01")`, yes, no},
		{`!has(language) || language in ["go", "python"]`, yes, yes},
		{`(language ?? "none") == "none"`, no, yes},
		{`hints_text == ""`, yes, yes},
		{`parent_id == ""`, no, yes},
		{`len(fail_to_pass) > 0`, yes, no},
		{`words(problem_statement) == 4`, yes, no},
		{`lines(patch) == 3 and files(patch) == ["x.go"]`, yes, no},
		{`site(start_url) == "example.co.uk" && host(start_url) == "www.shop.example.co.uk"`, yes, dontKnow},
		{`raw.n == 3`, yes, dontKnow},
		{`raw.n > 2.5 && raw.f < 1`, yes, dontKnow},
		{`raw.yes`, yes, dontKnow},
		{`raw.null == nil`, dontKnow, dontKnow},
		{`raw.meta.score >= 7`, yes, dontKnow},
		{`raw["meta"]["deep"].x == "y"`, yes, dontKnow},
		{`raw?.meta?.deep?.x == "y"`, yes, dontKnow},
		{`raw.text_meta.score == 9`, yes, dontKnow}, // an object as JSON text
		{`raw.meta.nothing.below == 1`, dontKnow, dontKnow},
		{`has(raw.meta.score) && raw.meta.score == 7`, yes, no},
		{`has(raw.null)`, no, no},
		{`(raw.meta.other ?? 5) == 5`, yes, yes},
		{`any(raw.list, # == 2)`, yes, dontKnow},
		{`raw.word == language`, yes, dontKnow},
		{`let l = lower(repo); l == "o/r"`, yes, dontKnow},
		{`language == "go" ? true : false`, yes, dontKnow},
	} {
		p, err := loaded(rule(c.expr))
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		full, bare := task(), record.Task{TaskID: "t", Raw: "{}"}
		for _, row := range []struct {
			task *record.Task
			want answer
		}{{&full, c.full}, {&bare, c.bare}} {
			got, _, err := p.Steps[0].cond.ask(p.Row(row.task))
			if err != nil || got != row.want {
				t.Errorf("%s of %s: %d, %v; want %d", c.expr, row.task.TaskID, got, err, row.want)
			}
		}
	}
}

// What is unknown is decided by the rule's absent, and by default it ends the stage.
func TestAbsent(t *testing.T) {
	t.Parallel()
	bare := record.Task{TaskID: "bare", Raw: `{"langage":"go"}`}
	for _, c := range []struct {
		absent    string
		drop, err bool
	}{{"absent: keep", false, false}, {"absent: drop", true, false}, {"absent: error", false, true}, {"why: x", false, true}} {
		p, err := loaded(rule(`raw.language == "go"`, c.absent))
		if err != nil {
			t.Fatal(err)
		}
		d, err := p.Steps[0].Decide(p.Row(&bare))
		switch {
		case c.err:
			for _, part := range []string{"my.yaml:2", "rule r", "task bare", "raw.language is absent", "nearest are raw.langage", "absent: keep"} {
				if err == nil || exit.Code(err) != exit.Config || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v; want %q", c.absent, err, part)
				}
			}
		case err != nil || d.Drop != c.drop || !d.Unknown || !strings.Contains(d.Detail, "raw.language is absent"):
			t.Errorf("%s: %+v, %v", c.absent, d, err)
		}
	}
}

// A rule that goes wrong on a row is an error that names both, and never a false.
func TestErrorsOnRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, says string }{
		{`raw.word > 3`, `string > int`},
		{`raw.list == 1 || raw.word`, "neither true nor false"},
		{`raw.n`, "a number, neither true nor false"},
		{`raw.list[5] == 1`, "out of range"},
		{`site(raw.n) == "x"`, "expected text"},
		{`count_by(raw.list) > 1`, "counts by a list"},
	} {
		p, err := loaded(rule(c.expr))
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		row := task()
		_, err = p.Steps[0].Decide(p.Row(&row))
		if err == nil || exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "my.yaml:2: rule r: task o__r-7: ") {
			t.Errorf("%s: %v; want %q", c.expr, err, c.says)
		}
	}
	p, err := loaded(rule("raw.n == 1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"{", "[1]", "{}x"} {
		_, err := p.Steps[0].Decide(p.Row(&record.Task{TaskID: "t", Raw: raw}))
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "rule r: task t: raw is no JSON object") && !strings.Contains(err.Error(), "raw is a list") {
			t.Errorf("raw %s: %v", raw, err)
		}
	}
}

// A rule file that is wrong says where, what, and what was probably meant.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, says string }{
		{"", "is empty"},
		{"rules: []", "my.yaml:1: has no rules"},
		{"about: x", "my.yaml:1: has no rules"},
		{"- a", "must be an object"},
		{"rules:\n  - {name: r", "my.yaml: yaml: line"},
		{"rules:\n  - {name: r, keep: 'repo != \"\"'}\n---\nx: 1", "second document"},
		{"rules:\n  - name: r\n    kep: repo != \"\"", `my.yaml:3: unknown key "kep"; nearest are keep`},
		{"rule:\n  - name: r", `my.yaml:1: unknown key "rule"; nearest are rules`},
		{"rules:\n  - name: r\n    keep: repo == \"a\"\n    keep: repo == \"b\"", "my.yaml:4: keep: is there twice"},
		{"rules:\n  - keep: repo != \"\"", "my.yaml:2: a rule has no name"},
		{"rules:\n  - {name: R-1, keep: 'repo != \"\"'}", "lower-case letters"},
		{"rules:\n  - {name: r, keep: 'repo != \"\"'}\n  - {name: r, drop: 'repo != \"\"'}", "my.yaml:3: rule r: the name is taken"},
		{"rules:\n  - {name: r}", "rule r: needs one of keep"},
		{"rules:\n  - {name: r, keep: a, drop: b}", "rule r: needs one of keep"},
		{"rules:\n  - {name: r, keep: 'repo != \"\"', absent: maybe}", `absent: "maybe" is none of`},
		{"rules:\n  - {name: r, keep: 'repo != \"\"', evals: [x]}", "evals: goes with contaminated"},
		{"rules:\n  - {name: r, keep: [a]}", "must be text, not a list"},
		{rule(`row.difficulty == 1`), `my.yaml:2: rule r: there is no column "row"; columns of the imported row are raw.NAME here`},
		{"rules:\n  - {name: r, keep: in_set(\"x\", repo)}\n", `unknown key "repo)"; known are absent, contaminated, drop, evals, keep, name, why; if this is a part of an expression, put the whole of it in '…'`},
		{rule(`langauge == "go"`), `my.yaml:2: rule r: there is no column "langauge"; nearest are language`},
		{rule(`policy == "x"`), `no column "policy"`}, // of rollouts
		{rule(`hots(start_url) == "x"`), `there is no function "hots"; nearest are has, host`},
		{rule(`now() > created_at`), "now() is not there"},
		{rule(`$env["language"] == "go"`), `no column "$env"`},
		{rule(`1 < 2`), "names no column"},
		{rule(`repo`), "expected bool, but got string"},
		{rule(`repo > 5`), "mismatched types string and int"},
		{rule(`repo ==`), "unexpected token"},
		{rule(`in_set("x", repo)`), `there is no set "x"`},
		{rule(`in_set(repo, repo)`), "in quotes"},
		{rule(`has(1 + 2)`), "has takes a column"},
		{rule(`count_by(count_by(repo)) > 1`), "count_by inside count_by"},
		{rule(`count_by(any(fail_to_pass, count_by(#) > 1)) > 1`), "count_by inside count_by"},
		{"sets: {s: {file: a, values: [b]}}\n" + rule(`in_set("s", repo)`), "needs one of file"},
		{"sets: {s: {of: things, values: [b]}}\n" + rule(`in_set("s", repo)`), "neither text nor sites"},
		{"sets: {s: {file: gone.txt}}\n" + rule(`in_set("s", repo)`), "my.yaml:1: set s: there is no file gone.txt"},
		{"sets: {s: {given: true}}\n" + rule(`in_set("s", repo)`), "give it with --set s=FILE"},
		{"sets: {s: {of: sites, values: ['a b']}}\n" + rule(`in_set("s", repo)`), "is no address of a website"},
	} {
		_, err := loaded(c.text)
		if err == nil || exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "my.yaml") {
			t.Errorf("%q:\n%v\nwant %q", c.text, err, c.says)
		}
	}
	// Everything is said at once.
	_, err := loaded("rules:\n  - {name: a, keep: 'foo == 1'}\n  - {name: b, keep: 'bar == 1'}\n")
	if err == nil || !strings.Contains(err.Error(), "my.yaml:2: rule a") || !strings.Contains(err.Error(), "my.yaml:3: rule b") {
		t.Errorf("%v", err)
	}
}

func TestSites(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{ // host, site
		"https://example.com/a?b=c":                   {"example.com", "example.com"},
		"HTTP://WWW.Example.COM.:8080":                {"www.example.com", "example.com"},
		"shop.example.co.uk/x":                        {"shop.example.co.uk", "example.co.uk"},
		"https://user:secret@example.com@a.org/":      {"a.org", "a.org"},
		"https://bücher.example/":                     {"xn--bcher-kva.example", "xn--bcher-kva.example"},
		"https://shop.XN--BCHER-KVA.example":          {"shop.xn--bcher-kva.example", "xn--bcher-kva.example"},
		"https://ｅｘａｍｐｌｅ。com":                         {"example.com", "example.com"},
		"https://straße.de":                           {"xn--strae-oqa.de", "xn--strae-oqa.de"},
		"https://a.github.io":                         {"a.github.io", "a.github.io"},
		"http://127.0.0.1:80/":                        {"127.0.0.1", "127.0.0.1"},
		"http://[::1]:80/":                            {"::1", "::1"},
		"http://localhost:3000":                       {"localhost", "localhost"},
		"co.uk":                                       {"co.uk", "co.uk"},
		"https://example.com.evil.org/?u=example.com": {"example.com.evil.org", "evil.org"},
		"https://my_shop.example.com":                 {"my_shop.example.com", "example.com"},
	} {
		host, err1 := Host(address)
		site, err2 := Site(address)
		if err1 != nil || err2 != nil || host != want[0] || site != want[1] {
			t.Errorf("%s: %q %v, %q %v; want %v", address, host, err1, site, err2, want)
		}
	}
	for _, address := range []string{"", "  ", "https://", "https:///path", "http://a b", "http://%zz", "https://xn--a"} {
		if host, err := Host(address); err == nil {
			t.Errorf("%q is host %q", address, host)
		}
	}
}

// Layout, comments and names of files do not change what a rule file is; its rules and
// what its sets hold do.
func TestSum(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, path)) }
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "b.com\nA.com\n# x\n")
	write("b", "www.a.com\r\n\nB.com\nb.com\n")
	write("c", "a.com\n")
	sum := func(file, more string) string {
		text := fmt.Sprintf("sets:\n  s: {of: sites, file: %s}\nrules:\n  - name: r\n    keep: in_set(\"s\", start_url)\n%s", file, more)
		p, err := Load("x", []byte(text), nil, read, read)
		if err != nil {
			t.Fatal(err)
		}
		return p.Sum
	}
	one := sum("a", "")
	if sum("b", "    # a comment\n\n") != one {
		t.Error("the sum depends on layout")
	}
	if sum("c", "") == one || sum("a", "    absent: keep\n") == one || sum("a", "    why: x\n") == one {
		t.Error("the sum does not depend on the rules or sets")
	}
	p, err := Load("x", []byte("sets:\n  s: {of: sites, given: true}\nrules:\n  - name: r\n    keep: in_set(\"s\", start_url)\n"), map[string][]string{"s": {"a", "c"}}, read, read)
	if err != nil || p.SetSums["s"] == "" {
		t.Fatal(err)
	}
	_, err = Load("x", []byte(rule("repo != \"\"")), map[string][]string{"top": {"a"}}, read, read)
	if err == nil || !strings.Contains(err.Error(), "--set top: x has no such set") {
		t.Error(err)
	}
}

// The rule files that come with the program can be read, and say why they drop.
func TestReady(t *testing.T) {
	t.Parallel()
	lists := func(string) ([]byte, error) { return []byte("example.com\n"), nil }
	for _, name := range []string{"gui", "scale-swe", "swe-rebench", "swe-rebench-v2"} {
		b, ok := ReadyFile(name)
		if !ok {
			t.Fatalf("no %s among %v", name, Ready())
		}
		given := map[string][]string{}
		if name == "gui" {
			given = map[string][]string{"similarweb_top100": {"x"}, "moz_top500": {"x"}}
		}
		p, err := Load(name, b, given, lists, lists)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps {
			if s.Why == "" || p.About == "" {
				t.Errorf("%s: rule %s does not say why", name, s.Name)
			}
		}
	}
	if len(Ready()) != 4 {
		t.Errorf("%v", Ready())
	}
}
