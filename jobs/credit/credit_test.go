package credit

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/llm/llmtest"
	"orchard/internal/runner"
	"orchard/internal/seal"
	"orchard/jobs/credit/annotate"
	"orchard/jobs/credit/calibration"
)

func TestEveryRolloutIsValuedOrCounted(t *testing.T) {
	t.Parallel()
	server := annotator(t, map[string][]string{
		"stubborn": {"It went well until step 3."},
		"learns":   {"[]", right(6)},
	})
	c := given(t, server.URL,
		played("solved", record.Resolved, 5), played("plain", record.Unresolved, 6), played("partial", record.Partial, 9),
		played("stubborn", record.Unresolved, 6), played("learns", record.TestTimeout, 6), played("short", record.EmptyPatch, 2),
		played("nobody knows", record.NotGraded, 6), played("broken", record.TaskInvalid, 6), played("idle", record.NoTestsRan, 6))
	res, err := Run(t.Context(), c, deps())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int64{"no_reward_not_graded": 1, "no_reward_task_invalid": 1, "no_reward_no_tests_ran": 1}, res.Dropped); d != "" || res.RowsIn != 9 || res.RowsOut != 6 {
		t.Errorf("%d in, %d out\n%s", res.RowsIn, res.RowsOut, d)
	}
	got := rows(t, res)
	status := map[string]string{}
	for name, r := range got {
		status[name] = r.Status
		if r.RolloutID == "" || r.Policy != teacher || r.Method != record.CreditTeacher || r.Trajectory == "" {
			t.Errorf("%s: a row with gaps: %+v", name, r)
		}
		if (r.Status == record.CreditAnnotated) != (len(r.Values) > 0) {
			t.Errorf("%s is %s and has %d values", name, r.Status, len(r.Values))
		}
	}
	want := map[string]string{"solved": "not_needed", "plain": "annotated", "partial": "annotated", "stubborn": "annotation_failed", "learns": "annotated", "short": "too_short"}
	if d := cmp.Diff(want, status); d != "" {
		t.Error(d)
	}
	p := got["plain"]
	if d := cmp.Diff([]record.Segment{{Begin: 0, End: 2}}, p.Segments); d != "" || !slices.Equal(p.Trained, []int64{0, 1}) || len(p.Values) != 7 || len(p.Credits) != 6 || *p.Values[1] != .5 || len(p.Rises) != 1 {
		t.Errorf("%s%+v", d, p)
	}
	if len(p.Keys) != 3 || p.Keys[1].Reasoning != "finds the cause" || p.Annotator != teacher || !strings.HasPrefix(p.TemplateID, "credit-before@") || p.Usage.ModelCalls != 1 || p.Usage.TokenSource != "server" {
		t.Errorf("%+v", p)
	}
	if s := got["solved"]; s.Usage.ModelCalls != 0 || len(s.Trained) != 5 {
		t.Errorf("%+v", s)
	}
	if s := got["stubborn"]; len(s.Answers) != 3 || s.Answers[2].Reason != annotate.NoArray || s.Answers[2].Answer.Value == "" || len(s.Trained) != 0 {
		t.Errorf("%+v", s)
	}
	if s := got["learns"]; len(s.Answers) != 2 || s.Answers[0].Reason != annotate.TooFew || s.Answers[1].Reason != "" {
		t.Errorf("%+v", s)
	}
	if n := len(server.Requests()); n != 1+1+3+2 {
		t.Errorf("%d requests", n)
	}
	again, err := Run(t.Context(), c, deps())
	if err != nil || again.Status != runner.StatusAlready || len(again.Files) != 2 || len(server.Requests()) != 7 {
		t.Errorf("again: %+v, %v, %d requests", again, err, len(server.Requests()))
	}

	var r calibration.Report
	if err := json.Unmarshal(file(t, res, "calibration.json"), &r); err != nil {
		t.Fatal(err)
	}
	if r.Rows != 6 || r.InvertedU.Count != 3 || r.InvertedU.Of != 3 || r.Rejected[annotate.NoArray] != 3 || r.Rejected[annotate.TooFew] != 1 || r.Asked != 4 ||
		!slices.Equal(r.Accepted, []int64{2, 1}) || *r.Segments.Median != 2 || r.Trained.Of != 21 || r.Dropped["no_reward_not_graded"] != 1 {
		t.Errorf("%+v", r)
	}
	if md := string(file(t, res, "calibration.md")); !strings.Contains(md, "100.0 % (3 of 3)") || !strings.Contains(md, "rejected: `no_array` | 3") {
		t.Error(md)
	}
}

// A teacher whose answer cannot be used is told what is wrong with it, after its answer.
func TestTheTeacherIsToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := annotator(t, map[string][]string{"a": {`[{"step":0,"probability":0.7},{"step":1,"probability":0.8},{"step":5,"probability":0.1}]`, ""}})
	c := given(t, server.URL, played("a", record.Unresolved, 6))
	if _, err := Run(t.Context(), c, deps()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Messages []struct{ Role, Content string }
		Seed     *int64
	}
	if err := json.Unmarshal(server.Requests()[2].Body, &doc); err != nil || len(doc.Messages) != 6 || doc.Seed == nil {
		t.Fatalf("%d messages, %v", len(doc.Messages), err)
	}
	for i, says := range []string{"after the fact", "TestOne (fail to pass): failed", `"probability":0.7`, "0.7; it must be between 0.3 and 0.5", "(no answer)", "no finished JSON array"} {
		if !strings.Contains(doc.Messages[i].Content, says) {
			t.Errorf("message %d does not say %q: %s", i, says, doc.Messages[i].Content)
		}
	}
}

// A teacher that is down, or that answers nonsense, says nothing about a trajectory.
func TestATeacherThatIsDownIsNoFailedAnnotation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply llmtest.Reply
		code  int
	}{
		{"ill", llmtest.Reply{Status: 500, Body: "oops"}, exit.Retry},
		{"hangs up", llmtest.Reply{Drop: true}, exit.Retry},
		{"busy", llmtest.Reply{Status: 429, Body: "later"}, exit.Retry},
		{"a web page", llmtest.Reply{Body: "<html>hello"}, exit.Retry},
		{"a bad request", llmtest.Reply{Status: 400, Body: "what?"}, exit.Retry},
		{"a wrong key", llmtest.Reply{Status: 401, Body: "who?"}, exit.Config},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var well atomic.Bool
			server := llmtest.New(t, []string{teacher}, func(_ int, r llmtest.Request) llmtest.Reply {
				name, steps, _ := about(r)
				if name == "b" && !well.Load() {
					return c.reply
				}
				return llmtest.Text(right(steps))
			})
			cfg := given(t, server.URL, played("a", record.Unresolved, 6), played("b", record.Unresolved, 6), played("c", record.Resolved, 6))
			cfg.Workers = 1
			res, err := Run(t.Context(), cfg, deps())
			if exit.Code(err) != c.code || res.URI != "" || exists(filepath.Join(cfg.Out, "refs")) {
				t.Fatalf("%d: %v, %+v", exit.Code(err), err, res)
			}
			well.Store(true)
			if res, err = Run(t.Context(), cfg, deps()); err != nil {
				t.Fatal(err)
			}
			asked := map[string]int{}
			for _, r := range server.Requests() {
				name, _, _ := about(r)
				asked[name]++
			}
			if got := rows(t, res)["b"]; got.Status != record.CreditAnnotated || asked["a"] != 1 {
				t.Errorf("%s, asked %v", got.Status, asked)
			}
		})
	}
}

func TestWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	window := 18_000 // characters that the server takes
	server := llmtest.New(t, []string{teacher}, func(_ int, r llmtest.Request) llmtest.Reply {
		name, steps, _ := about(r)
		switch {
		case name == "filtered":
			return llmtest.Reply{Status: 400, Body: `{"error":{"code":"content_filter","message":"no"}}`}
		case len(r.Body) > window || name == "never":
			return llmtest.Reply{Status: 400, Body: `{"error":{"code":"context_length_exceeded","message":"maximum context length is 9"}}`}
		case name == "cut":
			reply := llmtest.Text(strings.TrimSuffix(right(steps), "]\n```"))
			reply.Response.FinishReason = "length"
			return reply
		}
		return llmtest.Text(right(steps))
	})
	long := played("long", record.Unresolved, 30)
	for i := range long.Trajectory.Steps {
		long.Trajectory.Steps[i].Actions[0].Observation.Value = strings.Repeat("é", 2000)
	}
	c := given(t, server.URL, long, played("never", record.Unresolved, 4), played("filtered", record.Unresolved, 4), played("cut", record.Unresolved, 4))
	res, err := Run(t.Context(), c, deps())
	if err != nil {
		t.Fatal(err)
	}
	got := rows(t, res)
	if r := got["long"]; r.Status != record.CreditAnnotated || r.CutParts < 30 || r.CutChars < 30_000 || r.PromptChars > int64(window) {
		t.Errorf("%s: %d characters, %d cut from %d texts", r.Status, r.PromptChars, r.CutChars, r.CutParts)
	}
	for name, reason := range map[string]string{"never": tooLong, "filtered": annotate.Filtered, "cut": annotate.CutOff} {
		r := got[name]
		if r.Status != record.CreditFailed || len(r.Answers) == 0 || r.Answers[len(r.Answers)-1].Reason != reason || len(r.Trained) > 0 {
			t.Errorf("%s: %s %+v", name, r.Status, r.Answers)
		}
	}
}

func TestInputsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := annotator(t, nil)
	other := played("x", record.Unresolved, 5)
	other.Policy = "somebody else"
	c := given(t, server.URL, other)
	_, err := Run(t.Context(), c, deps())
	if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--any-policy") || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("%d %v", exit.Code(err), err)
	}
	c.AnyPolicy = true
	if res, err := Run(t.Context(), c, deps()); err != nil || rows(t, res)["x"].Policy != "somebody else" || rows(t, res)["x"].Annotator != teacher {
		t.Errorf("%v", err)
	}
	twice := given(t, server.URL, played("x", record.Unresolved, 5))
	twice.In = append(twice.In, save(t, t.TempDir(), "more", played("x", record.Unresolved, 5)))
	if _, err := Run(t.Context(), twice, deps()); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "is in") {
		t.Errorf("%v", err)
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Rollouts come from several datasets to several workers, shard by shard and after a stop,
// and each is asked about once.
func TestManyRolloutsInShards(t *testing.T) {
	t.Parallel()
	server := annotator(t, nil)
	var first, second []record.Rollout
	for i := range 60 {
		r := played(fmt.Sprint("r", i), []record.Outcome{record.Unresolved, record.Unresolved, record.Resolved}[i%3], 4+i%7)
		if i%2 == 0 {
			first = append(first, r)
		} else {
			second = append(second, r)
		}
	}
	c := given(t, server.URL, first...)
	c.In = append(c.In, save(t, t.TempDir(), "more", second...))
	for _, shard := range []runner.Shard{{I: 2, N: 3}, {I: 1, N: 3}, {I: 3, N: 3}, {I: 1, N: 3}} {
		one := c
		one.Shard = shard
		if _, err := Run(t.Context(), one, deps()); err != nil {
			t.Fatal(err)
		}
	}
	commit := c
	commit.Mode = runner.ModeCommit
	res, err := Run(t.Context(), commit, deps())
	if err != nil || res.RowsOut != 60 || len(res.Files) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for name, r := range rows(t, res) {
		if r.Status == record.CreditAnnotated && r.Keys[2].Step != r.Steps-1 {
			t.Errorf("%s: the answer is about another rollout: %+v", name, r.Keys)
		}
	}
	if n := len(server.Requests()); n != 40 {
		t.Errorf("%d requests about 40 rollouts", n)
	}
}

// What the stage writes for the same inputs and answers, by its Version: a change of one
// without the other is a mistake.
func TestOutputIsThatOfTheVersion(t *testing.T) {
	t.Parallel()
	server := annotator(t, map[string][]string{"vague": {"perhaps", right(8)}, "lost": {"no"}})
	c := given(t, server.URL, played("plain", record.Unresolved, 6), played("vague", record.Partial, 8), played("lost", record.Unresolved, 6), played("solved", record.Resolved, 3), played("odd", record.InfraError, 3))
	c.Curve.Pad = 1
	res, err := Run(t.Context(), c, deps())
	if err != nil {
		t.Fatal(err)
	}
	all := rows(t, res)
	for name, r := range all {
		r.Usage = record.Usage{}
		all[name] = r
	}
	sum, err := seal.Sum(all)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("version %d: rows %.12s, calibration.md %.12s, calibration.json %.12s", Version, sum, seal.Bytes(file(t, res, "calibration.md")), seal.Bytes(file(t, res, "calibration.json")))
	if want := "version 1: rows aa25316ceb30, calibration.md 4228462bffb2, calibration.json f770dbe1c377"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
