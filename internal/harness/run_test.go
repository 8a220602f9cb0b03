package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
	"orchard/internal/sandbox"
)

func TestHowEpisodesEnd(t *testing.T) {
	t.Parallel()
	filtered := text("I can't")
	filtered.FinishReason = "content_filter"
	reply := func(rs ...llm.Response) []llmtest.Reply {
		out := make([]llmtest.Reply, len(rs))
		for i, r := range rs {
			out[i].Response = r
		}
		return out
	}
	clock := func(step time.Duration) func() time.Time {
		now := time.Unix(0, 0)
		return func() time.Time { now = now.Add(step); return now }
	}
	tests := []struct {
		name           string
		replies        []llmtest.Reply
		change         func(*harness.Episode)
		status, detail string
		calls          int
	}{
		{"steps", reply(calls("", "ls")), func(e *harness.Episode) { e.Limits.Steps = 3 }, record.ExitStepLimit, "LimitsExceeded", 3},
		{"rejected answers count as steps", reply(text("no")), func(e *harness.Episode) { e.Limits.Steps = 2 }, record.ExitStepLimit, "LimitsExceeded", 2},
		{"rejected in a row", reply(text("no")), nil, record.ExitRepeatedFormat, "RepeatedFormatError", 3},
		{"tokens, checked before the call", reply(calls("", "ls")), func(e *harness.Episode) { e.Limits.Tokens = 220 }, record.ExitTokenLimit, "LimitsExceeded", 2},
		{"cost", reply(calls("", "ls")), func(e *harness.Episode) { e.Limits.CostUSD = 0.00002 }, record.ExitCostLimit, "LimitsExceeded", 2},
		{"wall time", reply(calls("", "ls")), func(e *harness.Episode) { e.Limits.Wall, e.Clock = time.Hour, clock(10*time.Minute) }, record.ExitTimeLimit, "TimeExceeded", 2},
		{"stuck", reply(calls("a", "true"), calls("b", "ls")), func(e *harness.Episode) { e.Limits.Stuck = 4 }, record.ExitStuck, "Stuck", 5},
		{"not stuck without the option", reply(calls("b", "ls")), nil, record.ExitStepLimit, "LimitsExceeded", 20},
		{"context too long", append(reply(calls("", "ls")), llmtest.Reply{Status: 400, Body: `{"error":{"message":"maximum context length is 10 tokens"}}`}), nil, record.ExitTokenLimit, "ContextWindowExceededError", 2},
		{"prompt filtered", []llmtest.Reply{{Status: 400, Body: `{"error":{"message":"no","code":"content_filter"}}`}}, nil, record.ExitContentFiltered, "ContentPolicyViolationError", 1},
		{"answer filtered", reply(filtered), nil, record.ExitContentFiltered, "ContentPolicyViolationError", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr, s, err := playReplies(t, harness.MiniSweV2, tt.replies, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if tr.ExitStatus != tt.status || tr.ExitDetail != tt.detail {
				t.Errorf("ended %s (%s), want %s (%s)", tr.ExitStatus, tr.ExitDetail, tt.status, tt.detail)
			}
			if n := len(s.Requests()); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
			last := tr.Messages[len(tr.Messages)-1]
			if last.Role != "exit" || last.Content != tt.detail || last.Kept {
				t.Errorf("last message %+v, want the end message", last)
			}
		})
	}
}

func TestStuckInVersion1(t *testing.T) {
	t.Parallel()
	tr, _, err := play(t, harness.MiniSweV1, []llm.Response{text("no block")}, func(e *harness.Episode) { e.Limits.Stuck = 5 })
	if err != nil || tr.ExitStatus != record.ExitStuck || len(tr.Steps) != 5 {
		t.Errorf("rejected again and again: %s after %d steps, %v; want stuck after 5", tr.ExitStatus, len(tr.Steps), err)
	}
}

// What we could not find out is an error, with all that was seen until then.
func TestTroubleIsNoEnding(t *testing.T) {
	t.Parallel()
	silent := calls("", "ls")
	silent.Usage = nil
	tests := []struct {
		name    string
		replies []llmtest.Reply
		change  func(*harness.Episode)
		is      func(error) bool
		steps   int
	}{
		{"sandbox lost", []llmtest.Reply{{Response: calls("", "ls", "pwd")}}, func(e *harness.Episode) {
			e.Shell = &shell{err: &sandbox.Lost{ID: "s1", Reason: "evicted"}}
		}, sandbox.IsLost, 1},
		{"server down", []llmtest.Reply{{Response: calls("", "ls")}, {Status: 503, Body: "down"}}, nil,
			func(err error) bool { return llm.Is(err, llm.Transient) }, 1},
		{"server refuses", []llmtest.Reply{{Status: 401, Body: "key?"}}, nil,
			func(err error) bool { return llm.Is(err, llm.Refused) }, 0},
		{"the run's budget is used up", []llmtest.Reply{{Response: calls("", "ls")}}, func(e *harness.Episode) {
			e.Model = llm.Budget(e.Model, 100, 0)
		}, func(err error) bool { return llm.Is(err, llm.OverBudget) }, 1},
		{"no usage for a limit of tokens", []llmtest.Reply{{Response: silent}}, func(e *harness.Episode) { e.Limits.Tokens = 100 },
			func(err error) bool { return strings.Contains(err.Error(), "limit of tokens") }, 0},
		{"no price for a limit of cost", []llmtest.Reply{{Response: silent}}, func(e *harness.Episode) { e.Limits.CostUSD = 1 },
			func(err error) bool { return strings.Contains(err.Error(), "--llm-price-in") }, 0},
		{"store full", []llmtest.Reply{{Response: calls("", "ls")}}, func(e *harness.Episode) {
			e.Keep = func(context.Context, []byte) (record.Text, error) { return record.Text{}, errors.New("disk full") }
		}, func(err error) bool { return strings.Contains(err.Error(), "disk full") }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr, _, err := playReplies(t, harness.MiniSweV2, tt.replies, tt.change)
			if err == nil || !tt.is(err) {
				t.Fatalf("got %v, ended %q", err, tr.ExitStatus)
			}
			if tr.ExitStatus != "" || len(tr.Steps) != tt.steps || len(tr.Messages) < 2 {
				t.Errorf("exit %q, %d steps, %d messages; want none, %d, and what was said", tr.ExitStatus, len(tr.Steps), len(tr.Messages), tt.steps)
			}
		})
	}
}

func TestCommandsAreRunAsTheOriginalRunsThem(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}
	env2 := map[string]string{"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1", "BASH_ENV": "/root/.bashrc"}
	tests := []struct {
		harness string
		answer  llm.Response
		want    sandbox.Command
	}{
		{harness.MiniSweV1, text("```bash\ncd /tmp && ls\n```"), sandbox.Command{Argv: []string{"bash", "-lc", "cd /tmp && ls"}, Env: env}},
		{harness.MiniSweV2, calls("", "cd /tmp && ls"), sandbox.Command{Argv: []string{"bash", "-c", "cd /tmp && ls"}, Env: env2}},
		{harness.MiniSweV2Text, text("```mswea_bash_command\ncd /tmp && ls\n```"), sandbox.Command{Argv: []string{"bash", "-c", "cd /tmp && ls"}, Env: env2}},
	}
	for _, tt := range tests {
		sh := &shell{}
		if _, _, err := play(t, tt.harness, []llm.Response{tt.answer}, func(e *harness.Episode) { e.Shell, e.Limits.Steps = sh, 1 }); err != nil {
			t.Fatal(err)
		}
		tt.want.Cwd, tt.want.Timeout, tt.want.Merge = "/testbed", time.Minute, true
		if d := cmp.Diff([]sandbox.Command{tt.want}, sh.log); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.harness, d)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	temp := 0.7
	sampling := func(e *harness.Episode) {
		e.Sampling = harness.Sampling{Temperature: &temp, MaxTokens: 99, Seed: 42, TokenIDs: true, Extra: map[string]any{"top_k": 5}}
		e.Limits.Steps = 2
	}
	first := calls("", "ls")
	first.Message.Reasoning = "think"
	_, s, _ := play(t, harness.MiniSweV2, []llm.Response{first}, sampling)
	for _, r := range s.Requests() {
		for k, want := range map[string]any{"temperature": 0.7, "max_tokens": 99.0, "seed": 42.0, "return_token_ids": true, "top_k": 5.0, "parallel_tool_calls": true} {
			if r.Doc[k] != want {
				t.Errorf("%s is %v, want %v", k, r.Doc[k], want)
			}
		}
	}
	again := s.Requests()[1].Doc["messages"].([]any)[2].(map[string]any)
	if again["reasoning_content"] != "think" {
		t.Errorf("version 2 sends %v, want the reasoning too", again)
	}
	first = text("```bash\nls\n```")
	first.Message.Reasoning = "think"
	_, s, _ = play(t, harness.MiniSweV1, []llm.Response{first}, sampling)
	again = s.Requests()[1].Doc["messages"].([]any)[2].(map[string]any)
	if _, has := again["reasoning_content"]; has || s.Requests()[0].Doc["tools"] != nil || s.Requests()[0].Doc["parallel_tool_calls"] != nil {
		t.Errorf("version 1 sends reasoning or tools: %v", s.Requests()[1].Doc)
	}
}

func TestStepsRecordWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	a := calls("", "ls")
	a.PromptIDs, a.CompletionIDs, a.LogProbs, a.WeightVersion = []int32{1, 2}, []int32{3}, []float32{-0.5}, "w9"
	bare := calls("", submit)
	bare.Usage = nil
	n := 0
	tr, _, err := play(t, harness.MiniSweV2, []llm.Response{a, text("oops"), bare}, func(e *harness.Episode) {
		e.Shell = &shell{results: commands}
		e.TreeSHA256 = func(context.Context) string { n++; return fmt.Sprint("tree", n) }
		e.Clock = func() time.Time { return time.Unix(0, 0) }
	})
	if err != nil {
		t.Fatal(err)
	}
	p, c := int64(100), int64(10)
	want := []record.Step{
		{FinishReason: "tool_calls", PromptTokenIDs: []int32{1, 2}, CompletionIDs: []int32{3}, LogProbs: []float32{-0.5}, WeightVersion: "w9", PromptTokens: &p, CompletionTokens: &c, DiffSHA256: "tree1"},
		{FinishReason: "stop", FormatError: "The answer has no tool call; every answer must have at least one.", PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{}, PromptTokens: &p, CompletionTokens: &c, DiffSHA256: "tree2"},
		{FinishReason: "tool_calls", PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{}, DiffSHA256: "tree3"},
	}
	for i := range tr.Steps {
		if tr.Steps[i].Actions == nil {
			t.Errorf("step %d: actions are null", i)
		}
		tr.Steps[i].Actions = nil
	}
	if d := cmp.Diff(want, tr.Steps); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A command that the kernel cannot start is the policy's doing: the episode goes on.
func TestCommandsThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	sh := &shell{}
	tr, _, err := play(t, harness.MiniSweV2, []llm.Response{calls("", strings.Repeat("x", 128<<10)), calls("", "a\x00b"), calls("", "ls")},
		func(e *harness.Episode) { e.Shell, e.Limits.Steps = sh, 3 })
	if err != nil {
		t.Fatal(err)
	}
	if len(sh.log) != 1 {
		t.Errorf("%d commands were started, want the last only", len(sh.log))
	}
	for i, want := range []string{"Argument list too long", "NUL"} {
		a := tr.Steps[i].Actions[0]
		if a.ExitCode == nil || *a.ExitCode != 126 || !strings.Contains(a.Observation.Value, want) {
			t.Errorf("step %d: %v, %q; want 126 and %q", i, a.ExitCode, a.Observation.Value, want)
		}
	}
}

func TestInvalidBytesAreKeptExactly(t *testing.T) {
	t.Parallel()
	raw := "ok \xff\xfe"
	tr, _, err := play(t, harness.MiniSweV2, []llm.Response{calls("", "ls")}, func(e *harness.Episode) {
		e.Shell, e.Limits.Steps = &shell{results: map[string]sandbox.Result{"ls": out(raw)}}, 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := tr.Steps[0].Actions[0].Observation; o.Blob == "" || o.Bytes != int64(len(raw)) {
		t.Errorf("observation %+v, want the exact bytes in a blob", o)
	}
	if got, want := tr.Messages[3].Content, "<returncode>0</returncode>\n<output>\nok \ufffd\ufffd</output>"; got != want {
		t.Errorf("the model sees %q, want %q", got, want)
	}
}

func TestEpisodesThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*harness.Episode){
		"Model, Shell and Keep":     func(e *harness.Episode) { e.Shell = nil },
		"the limit of steps":        func(e *harness.Episode) { e.Limits.Steps = 0 },
		"the timeout of commands":   func(e *harness.Episode) { e.Limits.CommandTimeout = 0 },
		"the limit of repetitions ": func(e *harness.Episode) { e.Limits.Stuck = 1 },
	} {
		if _, _, err := play(t, harness.MiniSweV2, []llm.Response{text("x")}, change); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}
