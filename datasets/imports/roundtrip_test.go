package imports

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
)

// rawOf is the row that an imported row keeps.
func rawOf(p Parsed) string {
	if p.Rollout != nil {
		return *p.Rollout.Raw
	}
	return p.Task.Raw
}

// exported is the raw rows as a file of JSON lines.
func exported(t *testing.T, rows []Parsed) string {
	t.Helper()
	var b strings.Builder
	for _, p := range rows {
		b.WriteString(rawOf(p) + "\n")
	}
	return write(t, "raw.jsonl", b.String())
}

// TestRoundTrip: import(export_raw(import(x))) is import(x), in every format and from
// every file of another writer.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, f := range Formats() {
		files[fixture(f)] = f.Name
	}
	writers, err := filepath.Glob("testdata/writers/*.[pa]*")
	if err != nil || len(writers) < 8 {
		t.Fatal(writers, err)
	}
	for _, name := range writers {
		files[name] = "swe-rebench"
	}
	for path, format := range files {
		first := parseFile(t, path, format)
		again := parseFile(t, exported(t, first), format)
		if len(first) != len(again) {
			t.Fatalf("%s: %d rows, then %d", path, len(first), len(again))
		}
		for i := range first {
			for _, p := range []*Parsed{&first[i], &again[i]} {
				p.Place, p.File, p.Row = "", "", nil
			}
			if d := cmp.Diff(first[i], again[i]); d != "" {
				t.Errorf("%s row %d: -first +again:\n%s", path, i, d)
			}
		}
	}
}

// TestRawIsTheRow: what is exported has the values of the source, number by number.
func TestRawIsTheRow(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		path := fixture(f)
		if !strings.HasSuffix(path, ".jsonl") {
			continue
		}
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		lines := bufio.NewScanner(in)
		for _, p := range parseFile(t, path, f.Name) {
			lines.Scan()
			var want, got map[string]any
			if err := decode(lines.Bytes(), &want); err != nil {
				t.Fatal(err)
			}
			if err := decode([]byte(rawOf(p)), &got); err != nil {
				t.Fatal(err)
			}
			if f.Name == "webvoyager" { // the answer that was beside the file
				delete(got, colAnswer)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", f.Name, d)
			}
		}
	}
	// A folder's raw row gives back each file, byte for byte.
	for _, format := range []string{"harbor", "claw-eval", "swe-bench-task"} {
		root := filepath.Join(fixtures, format)
		var row struct {
			Name  string
			Files []folderFile
		}
		if err := json.Unmarshal([]byte(rawOf(parseFile(t, root, format)[0])), &row); err != nil {
			t.Fatal(err)
		}
		for _, f := range row.Files {
			want, err := os.ReadFile(filepath.Join(root, row.Name, f.Path))
			if err != nil || string(want) != f.content() {
				t.Errorf("%s/%s: %q, %v", row.Name, f.Path, f.content(), err)
			}
		}
	}
}

// TestAnyExtraColumnSurvives: whatever else a row has comes out of its raw row again.
func TestAnyExtraColumnSurvives(t *testing.T) {
	t.Parallel()
	value := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "number") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "integer") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOf(rapid.Bool()).Draw(t, "list") }))
	names := make([]string, 0)
	for _, f := range Formats() {
		if strings.HasSuffix(fixture(f), ".jsonl") && !f.only {
			names = append(names, f.Name)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom(names).Draw(rt, "format")
		extra := rapid.MapOfN(rapid.StringMatching(`x_[a-z]{1,8}`), value, 1, 4).Draw(rt, "extra")
		change := map[string]any{}
		for k, v := range extra {
			change[k] = v
		}
		p, problem := changed(t, format, change)
		if problem != nil {
			rt.Fatal(problem)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(rawOf(p)), &got); err != nil {
			rt.Fatal(err)
		}
		for k, v := range extra {
			var a, b any
			if json.Unmarshal(got[k], &a) != nil || json.Unmarshal(mustJSON(v), &b) != nil || !cmp.Equal(a, b) {
				rt.Fatalf("%s: %s, want %s", k, got[k], mustJSON(v))
			}
		}
	})
}

// FuzzValues: no text makes a normaliser panic, and what it takes is the same when it
// is taken again.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{`["a"]`, "['a' 'b']", `('x', "it's")`, "array(['a'], dtype=object)", "{'a': None, 'b': [1, 2.5e3, True]}", "2024-05-31 12:30:00+00:00", "1.7e12", "-1", "NaT", "[...]", "{", "array(", `['\`, `['\xe9']`, strings.Repeat("[", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, plain := range []bool{false, true} {
			list, err := asList(s, plain)
			if err != nil {
				continue
			}
			again, err := asList(string(mustJSON(list)), plain)
			if err != nil || len(again) != len(list) {
				t.Errorf("%q: %q, then %q, %v", s, list, again, err)
			}
		}
		if at, err := asTime(s); err == nil && at != nil {
			again, err := asTime(at.Format("2006-01-02T15:04:05.999999999Z07:00"))
			if err != nil || !again.Equal(*at) {
				t.Errorf("%q: %v, then %v, %v", s, at, again, err)
			}
		}
		if o, err := asObject(s); err == nil && o != nil {
			if _, err := asObject(string(mustJSON(o))); err != nil {
				t.Errorf("%q: %v", s, err)
			}
		}
		_, _ = asItems(s)
		_, _ = asOutcome(s)
		_, _ = asDuration(s, 1)
		_, _ = literal(s)
		_ = exitStatus(s)
		_ = dockerWorkdir(s)
		if back, err := reversed(s); err == nil {
			if _, err := reversed(back); err != nil {
				t.Errorf("%q: its reverse %q cannot be reversed: %v", s, back, err)
			}
		}
	})
}

// FuzzFormats: no row makes a format panic, and a refusal says all.
func FuzzFormats(f *testing.F) {
	all := Formats()
	for i, format := range all {
		if b, err := os.ReadFile(fixture(format)); err == nil {
			line, _, _ := strings.Cut(string(b), "\n")
			f.Add(i, []byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, i int, text []byte) {
		r, problem := parseRow(text, "f:1")
		if problem != nil {
			return
		}
		p, problem := all[uint(i)%uint(len(all))].Parse(r, "fuzz")
		switch {
		case problem != nil && (problem.Place == "" || problem.Field == "" || problem.What == ""):
			t.Errorf("a problem that does not say all: %#v", problem)
		case problem == nil && p.Rollout == nil && (p.Task.TaskID == "" || p.Task.PassToPass == nil || p.Task.PreCommands == nil || p.Task.Goal == nil && len(p.Task.FailToPass)+len(p.Task.PassToPass) == 0):
			t.Errorf("an incomplete task: %+v", p.Task)
		case problem == nil && p.Rollout != nil && (len(p.Rollout.Trajectory.Steps) == 0 || (p.Rollout.Verdict.Reward == nil) != (p.Rollout.Verdict.Outcome == record.NotGraded)):
			t.Errorf("an incomplete rollout: %+v", p.Rollout)
		}
	})
}
