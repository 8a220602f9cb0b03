package scripted

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/llm"
)

var tasks = []record.Task{
	{TaskID: "short", Statement: "sum is wrong", GoldPatch: record.Text{Value: gold}},
	{TaskID: "long", Statement: "The sum is wrong\nwhen  both are odd.", GoldPatch: record.Text{Value: gold}},
}

func serve(t *testing.T, o Options) (string, *llm.Client) {
	t.Helper()
	s, err := New(tasks, o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c, err := llm.New(llm.Options{URL: h.URL, Model: Model})
	if err != nil {
		t.Fatal(err)
	}
	return h.URL, c
}

func ask(statement string, seed int64, more ...llm.Message) llm.Request {
	return llm.Request{Seed: &seed, Tools: []llm.Tool{{Name: "bash", Parameters: []byte("{}")}}, Messages: append([]llm.Message{
		{Role: "system", Content: "You work."}, {Role: "user", Content: statement},
	}, more...)}
}

func TestTheTaskIsFoundByItsStatement(t *testing.T) {
	t.Parallel()
	ix, err := newIndex(tasks)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, message, want string }{
		{"in tags, spaced differently", "<pr_description>\n  The sum is\nwrong when both are odd.\n</pr_description>\nsum is wrong", "long"},
		{"in tags", "<pr_description>sum is wrong</pr_description>", "short"},
		{"without tags the longest wins", "Fix this: The sum is wrong when both are odd. Thanks", "long"},
		{"without tags", "Fix this: sum is wrong. Thanks", "short"},
		{"unknown", "Fix this: product is wrong", ""},
	}
	for _, tt := range tests {
		got, ok := ix.find([]llm.Message{{Role: "system", Content: "x"}, {Role: "user", Content: tt.message}})
		if ok != (tt.want != "") || (ok && got.TaskID != tt.want) {
			t.Errorf("%s: got %+v, %v, want %q", tt.name, got, ok, tt.want)
		}
	}
	// A statement that the model only reads in some file is not what it is asked.
	if got, ok := ix.find([]llm.Message{{Role: "user", Content: "hello"}, {Role: "assistant"}, {Role: "tool", Content: "sum is wrong"}}); ok {
		t.Errorf("found %s in an observation", got.TaskID)
	}
}

func TestTheStepIsCounted(t *testing.T) {
	t.Parallel()
	conversation := func(roles string) (r llm.Request) {
		for _, c := range roles {
			r.Messages = append(r.Messages, llm.Message{Role: map[rune]string{'s': "system", 'u': "user", 'a': "assistant", 't': "tool"}[c]})
		}
		return r
	}
	tests := []struct {
		name, roles string
		tools       bool
		want        int
	}{
		{"tools, first", "su", true, 0},
		{"tools, two answers with three calls", "suattat", true, 2},
		{"tools, the second answer was taken out", "suatu", true, 2},
		{"tools, two taken out, then one", "suatuuat", true, 4},
		{"text, first", "su", false, 0},
		{"text, rejected answers stay", "suauau", false, 2},
		{"text, rejected answers are taken out", "suauuuau", false, 4},
	}
	for _, tt := range tests {
		r := conversation(tt.roles)
		if tt.tools {
			r.Tools = []llm.Tool{{Name: "bash"}}
		}
		if got := read(r).step; got != tt.want {
			t.Errorf("%s: step %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestSameRequestSameAnswer(t *testing.T) {
	t.Parallel()
	_, a := serve(t, Defaults())
	_, b := serve(t, Defaults())
	differ := false
	var first llm.Response
	for seed := range int64(40) {
		r := ask("sum is wrong", seed)
		x, err := a.Chat(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.Stream = true
		y, err := b.Chat(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(x, y); d != "" {
			t.Errorf("seed %d, streamed by another server (-first +second):\n%s", seed, d)
		}
		if x.Model != "scripted" || x.Usage == nil || x.Message.Reasoning == "" && len(x.Message.ToolCalls) > 0 && x.FinishReason == "" {
			t.Errorf("answer %+v", x)
		}
		if seed == 0 {
			first = x
		}
		x.ID, x.Usage = first.ID, first.Usage
		differ = differ || !cmp.Equal(first, x)
	}
	if !differ {
		t.Error("all seeds give the same answer")
	}
}

func TestUsageIsAQuarterOfTheCharacters(t *testing.T) {
	t.Parallel()
	_, c := serve(t, Options{Weights: map[Ending]float64{Stuck: 1}})
	got, err := c.Chat(t.Context(), llm.Request{Messages: []llm.Message{{Role: "user", Content: "é: sum is wrong"}}})
	if err != nil {
		t.Fatal(err)
	}
	answer := len(got.Message.Content) + len(got.Message.Reasoning)
	if d := cmp.Diff(&llm.Usage{PromptTokens: 4, CompletionTokens: int64(answer+3) / 4}, got.Usage); d != "" {
		t.Errorf("15 characters, and %d (-want +got):\n%s", answer, d)
	}
}

func TestRefusalsAndTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := Defaults()
	o.Log = LogTo(&log)
	url, c := serve(t, o)
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	if _, err := c.Chat(t.Context(), ask("product is wrong", 1)); !llm.Is(err, llm.Refused) || !strings.Contains(err.Error(), "--tasks") {
		t.Errorf("unknown task: %v", err)
	}
	if _, err := c.Chat(t.Context(), ask("sum is wrong", 9, llm.Message{Role: "assistant"}, llm.Message{Role: "tool"})); err != nil {
		t.Error(err)
	}
	post := func(body string) int {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := post("{"); got != 400 {
		t.Errorf("no JSON: %d, want 400", got)
	}
	if got := post(`{"model":"gpt","messages":[]}`); got != 404 {
		t.Errorf("another model: %d, want 404", got)
	}
	resp, err := http.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), "ok") {
		t.Errorf("healthz: %d %s %v", resp.StatusCode, b, err)
	}
	var got []Call
	for d := json.NewDecoder(&log); d.More(); {
		var call Call
		if err := d.Decode(&call); err != nil {
			t.Fatal(err)
		}
		got = append(got, call)
	}
	want := []Call{{N: 1, Seed: 1, Status: 400}, {N: 2, Task: "short", Seed: 9, Step: 1, Status: 200}, {N: 3, Status: 400}, {N: 4, Status: 404}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	s := &Server{o: Options{Throttle: 0.25}}
	n := 0
	for i := range int64(100) {
		if s.throttled(i + 1) {
			n++
		}
	}
	if n != 25 {
		t.Errorf("%d of 100 refused, want 25", n)
	}
	o := Defaults()
	o.Throttle = 0.5
	_, c := serve(t, o) // the client comes again
	for seed := range int64(2) {
		if _, err := c.Chat(t.Context(), ask("sum is wrong", seed)); seed == 0 && err != nil {
			t.Error(err)
		} else if seed == 1 && !llm.Is(err, llm.Transient) {
			t.Errorf("second request: got %v, want it refused", err)
		}
	}
}

func TestBadOptionsAndTasks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		tasks []record.Task
		o     Options
		says  string
	}{
		{"rate", tasks, Options{SolveRate: 1.5}, "solve rate"},
		{"no weights", tasks, Options{SolveRate: 0.5}, "no ending has a weight"},
		{"unknown ending", tasks, Options{Weights: map[Ending]float64{"rihgt": 1}}, "rihgt"},
		{"negative weight", tasks, Options{Weights: map[Ending]float64{Wrong: -1}}, "negative"},
		{"no statement", []record.Task{{TaskID: "t7"}}, Defaults(), "task t7"},
		{"gold in a blob", []record.Task{{TaskID: "t8", Statement: "s", GoldPatch: record.Text{Blob: "abc"}}}, Defaults(), "task t8"},
	}
	for _, tt := range tests {
		if _, err := New(tt.tasks, tt.o); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.says)
		}
	}
}
