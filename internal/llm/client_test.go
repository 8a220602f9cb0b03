package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
)

// client is a client with a key and pauses that suit a test.
func client(t *testing.T, url string, change func(*llm.Options)) *llm.Client {
	t.Helper()
	o := llm.Options{URL: url, Model: "m", Key: key, MaxRetries: 3, MaxWait: 2 * time.Millisecond, Timeout: time.Minute}
	if change != nil {
		change(&o)
	}
	c, err := llm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const key = "sk-very-secret-0123456789"

var hello = llm.Request{Messages: []llm.Message{{Role: "user", Content: "hello"}}}

func TestChatSendsAndReads(t *testing.T) {
	t.Parallel()
	answer := llm.Response{
		ID: "1", Model: "m", FinishReason: "tool_calls", Usage: &llm.Usage{PromptTokens: 3_000_000, CompletionTokens: 500_000},
		Message: llm.Message{Role: "assistant", Content: "so", Reasoning: "because", ToolCalls: []llm.ToolCall{{ID: "c1", Name: "bash", Arguments: `{"command":"ls"}`}}},
	}
	s := llmtest.New(t, nil, llmtest.Script(llmtest.Reply{Response: answer, Pieces: []int{1, 7, 30, 2}}))
	c := client(t, s.URL, func(o *llm.Options) { o.PriceIn, o.PriceOut = 2, 10 })
	temp, par, seed := 0.5, true, int64(7)
	for _, stream := range []bool{false, true} {
		got, err := c.Chat(t.Context(), llm.Request{
			Messages: []llm.Message{
				{Role: "system", Content: "s"}, {Role: "user", Content: "u"},
				{Role: "assistant", Reasoning: "r", ToolCalls: []llm.ToolCall{{ID: "x", Name: "bash", Arguments: "{}"}}},
				{Role: "tool", ToolCallID: "x", Content: "out"},
			},
			Tools:             []llm.Tool{{Name: "bash", Description: "d", Parameters: []byte(`{"type":"object"}`)}},
			ParallelToolCalls: &par, Temperature: &temp, Seed: &seed, MaxTokens: 9, Stream: stream, TokenIDs: true,
			Extra: map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := answer
		usd := 11.0
		want.CostUSD = &usd
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("stream %v (-want +got):\n%s", stream, d)
		}
	}
	reqs := s.Requests()
	if len(reqs) != 2 {
		t.Fatalf("%d requests, want 2", len(reqs))
	}
	if got, want := reqs[0].Header.Get("Authorization"), "Bearer "+key; got != want {
		t.Errorf("Authorization %q, want %q", got, want)
	}
	want := `{"chat_template_kwargs":{"enable_thinking":false},"logprobs":true,"max_tokens":9,"messages":[` +
		`{"content":"s","role":"system"},{"content":"u","role":"user"},` +
		`{"content":"","reasoning_content":"r","role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"bash","arguments":"{}"}}]},` +
		`{"content":"out","role":"tool","tool_call_id":"x"}],"model":"m","parallel_tool_calls":true,"return_token_ids":true,"seed":7,` +
		`%s"temperature":0.5,"tools":[{"function":{"description":"d","name":"bash","parameters":{"type":"object"}},"type":"function"}]}`
	for i, stream := range []string{"", `"stream":true,"stream_options":{"include_usage":true},`} {
		if d := cmp.Diff(fmt.Sprintf(want, stream), string(reqs[i].Body)); d != "" {
			t.Errorf("request %d (-want +got):\n%s", i, d)
		}
	}
}

func TestFailuresByClass(t *testing.T) {
	t.Parallel()
	body := func(status int, b string) llmtest.Reply { return llmtest.Reply{Status: status, Body: b} }
	tests := []struct {
		name   string
		reply  llmtest.Reply
		class  llm.Class
		tries  int
		detail string // must be in the message
	}{
		{"bad request", body(400, `{"error":{"message":"temperature is wrong","type":"invalid_request_error"}}`), llm.Refused, 1, "temperature is wrong"},
		{"bad key", body(401, `{"error":{"message":"Incorrect API key provided: `+key+`"}}`), llm.Refused, 1, "OPENAI_API_KEY"},
		{"forbidden", body(403, `nope`), llm.Refused, 1, "nope"},
		{"no such model", body(404, `{"object":"error","message":"model x does not exist","code":404}`), llm.Refused, 1, "--llm-model: model x does not exist"},
		{"bad schema", body(422, `{"detail":[{"msg":"field required"}]}`), llm.Refused, 1, "field required"},
		{"quota used up", body(429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`), llm.Refused, 1, "quota"},
		{"redirect", llmtest.Reply{Status: 308, Header: map[string]string{"Location": "https://elsewhere.invalid"}, Body: "x"}, llm.Refused, 1, "--llm-url"},
		{"filtered", body(400, `{"error":{"message":"The response was filtered","code":"content_filter"}}`), llm.Filtered, 1, "filtered"},
		{"too long, openai", body(400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`), llm.TooLong, 1, "8192"},
		{"too long, vllm", body(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).","code":400}`), llm.TooLong, 1, "4096"},
		{"too long, vllm prompt", body(400, `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","code":400}}`), llm.TooLong, 1, "4096"},
		{"too long, sglang", body(400, `{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","code":400}`), llm.TooLong, 1, "4096"},
		{"too long, sglang total", body(400, `{"message":"Requested token count exceeds the model's maximum context length of 4096 tokens."}`), llm.TooLong, 1, "4096"},
		{"too long, llama.cpp", body(400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`), llm.TooLong, 1, "context"},
		{"busy", body(429, `{"error":{"message":"slow down"}}`), llm.Transient, 4, "slow down"},
		{"timeout", body(408, ``), llm.Transient, 4, "408"},
		{"conflict", body(409, ``), llm.Transient, 4, "409"},
		{"bug", body(500, `oh`), llm.Transient, 4, "oh"},
		{"gateway page", body(502, `<html>bad gateway</html>`), llm.Transient, 4, "502"},
		{"starting", body(503, `loading model`), llm.Transient, 4, "loading model"},
		{"not implemented", body(501, `no`), llm.Refused, 1, "501"},
		{"dropped", llmtest.Reply{Drop: true}, llm.Transient, 4, ""},
		{"cut", func() llmtest.Reply { r := llmtest.Text("long enough"); r.Cut = 20; return r }(), llm.Transient, 4, ""},
		{"a page", body(200, "<html>Welcome to nginx</html>"), llm.Nonsense, 1, "Welcome to nginx"},
		{"garbage", body(200, "\x00\x01garbage"), llm.Nonsense, 1, "garbage"},
		{"no choices", body(200, `{"choices":[]}`), llm.Nonsense, 1, ""},
		{"error with status 200", body(200, `{"error":{"message":"out of memory","code":500}}`), llm.Transient, 4, "out of memory"},
		{"endless", body(200, `{"choices":"`+strings.Repeat("x", 1<<20)), llm.Nonsense, 1, "longer"},
	}
	for _, tt := range tests {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.name, stream), func(t *testing.T) {
				t.Parallel()
				s := llmtest.New(t, nil, llmtest.Script(tt.reply))
				r := hello
				r.Stream = stream
				resp, err := client(t, s.URL+"?api-version=hidden", func(o *llm.Options) { o.MaxBytes = 1 << 19 }).Chat(t.Context(), r)
				var e *llm.Error
				if !errors.As(err, &e) {
					t.Fatalf("got %+v, %v, want *llm.Error", resp, err)
				}
				if e.Class != tt.class {
					t.Errorf("class %s, want %s: %v", e.Class, tt.class, err)
				}
				if n := len(s.Requests()); n != tt.tries {
					t.Errorf("%d tries, want %d", n, tt.tries)
				}
				if !strings.Contains(err.Error(), tt.detail) || !strings.Contains(err.Error(), s.URL) {
					t.Errorf("message %q misses %q or the URL", err, tt.detail)
				}
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, e), key) || strings.Contains(err.Error(), "hidden") {
					t.Errorf("message %q tells a secret", err)
				}
			})
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tlsServer, _ := llmtest.NewTLS(t, nil, llmtest.Script(llmtest.Text("x")))
	plain := llmtest.New(t, nil, llmtest.Script(llmtest.Text("x")))
	tests := []struct {
		name, url, proxy, says string
	}{
		{"nobody listens", gone.URL, "", "--llm-url (OPENAI_BASE_URL)"},
		{"unknown certificate authority", tlsServer.URL, "", "--llm-ca-file"},
		{"TLS to a plain server", strings.Replace(plain.URL, "http://", "https://", 1), "", "TLS"},
		{"proxy is down", "https://model.invalid/v1", gone.URL, "--llm-proxy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := client(t, tt.url, func(o *llm.Options) { o.Proxy = tt.proxy })
			for what, err := range map[string]error{"check": c.Check(t.Context()), "chat": func() error { _, err := c.Chat(t.Context(), hello); return err }()} {
				if !llm.Is(err, llm.Unreachable) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: got %v, want class unreachable and %q", what, err, tt.says)
				}
			}
		})
	}
}

func TestRetriesUntilItWorks(t *testing.T) {
	t.Parallel()
	half := llmtest.Text("whole")
	half.Cut = 30
	date := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	s := llmtest.New(t, nil, llmtest.Script(
		llmtest.Reply{Status: 429, Body: "x", Header: map[string]string{"Retry-After": "0.001"}},
		llmtest.Reply{Status: 503, Body: "x", Header: map[string]string{"Retry-After": date}},
		half, llmtest.Text("whole")))
	r := hello
	r.Stream = true
	got, err := client(t, s.URL, nil).Chat(t.Context(), r)
	if err != nil || got.Message.Content != "whole" || len(s.Requests()) != 4 {
		t.Errorf("got %+v, %v after %d requests, want the answer after 4", got, err, len(s.Requests()))
	}
}

func TestRetryAfterBeyondPatienceEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]string{"seconds": "3600", "date": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		s := llmtest.New(t, nil, llmtest.Script(llmtest.Reply{Status: 429, Body: "x", Header: map[string]string{"Retry-After": h}}))
		_, err := client(t, s.URL, nil).Chat(t.Context(), hello)
		var e *llm.Error
		if !errors.As(err, &e) || e.Class != llm.Transient || e.RetryAfter < 58*time.Minute || e.RetryAfter > time.Hour {
			t.Errorf("%s: got %v, want a transient error that says an hour", name, err)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d tries, want 1", name, n)
		}
	}
}

func TestSlowServerAndImpatientCaller(t *testing.T) {
	t.Parallel()
	slow := llmtest.Text("late")
	slow.Delay = time.Hour
	s := llmtest.New(t, nil, llmtest.Script(slow))
	_, err := client(t, s.URL, func(o *llm.Options) { o.Timeout, o.MaxRetries = 20*time.Millisecond, 1 }).Chat(t.Context(), hello)
	if !llm.Is(err, llm.Transient) || !strings.Contains(err.Error(), "--llm-timeout") {
		t.Errorf("slow server: got %v, want a transient error that names the flag", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s = llmtest.New(t, nil, func(int, llmtest.Request) llmtest.Reply { cancel(); return slow })
	_, err = client(t, s.URL, nil).Chat(ctx, hello)
	var e *llm.Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("caller gives up: got %v, want the context's error", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	s = llmtest.New(t, nil, func(int, llmtest.Request) llmtest.Reply {
		defer cancel()
		return llmtest.Reply{Status: 503, Body: "x", Header: map[string]string{"Retry-After": "3600"}}
	})
	if _, err = client(t, s.URL, func(o *llm.Options) { o.MaxWait = 2 * time.Hour }).Chat(ctx, hello); !errors.Is(err, context.Canceled) {
		t.Errorf("caller gives up during a pause: got %v, want the context's error", err)
	}
}

func TestCustomCAAndProxy(t *testing.T) {
	t.Parallel()
	s, pem := llmtest.NewTLS(t, []string{"m"}, llmtest.Script(llmtest.Text("over TLS")))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	c := client(t, s.URL, func(o *llm.Options) { o.CAFile = ca })
	if got, err := c.Chat(t.Context(), hello); err != nil || got.Message.Content != "over TLS" {
		t.Errorf("custom CA: got %+v, %v", got, err)
	}
	behind := llmtest.New(t, nil, llmtest.Script(llmtest.Text("through the proxy")))
	target, _ := url.Parse(behind.URL)
	var passed atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.URL.Host == "model.invalid" {
			passed.Add(1)
		}
		r.Out.URL.Host = target.Host
	}})
	defer proxy.Close()
	c = client(t, "http://model.invalid/v1", func(o *llm.Options) { o.Proxy = proxy.URL })
	if got, err := c.Chat(t.Context(), hello); err != nil || got.Message.Content != "through the proxy" || passed.Load() != 1 {
		t.Errorf("proxy: got %+v, %v, %d requests passed", got, err, passed.Load())
	}
}
