package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pieces reads b in the given lengths, over and over, as a network would hand it on.
type pieces struct {
	b    []byte
	size []int
	n    int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.size[p.n%len(p.size)])], p.b)
	p.b, p.n = p.b[n:], p.n+1
	return n, nil
}

// respell writes the same events in another way that the format allows.
func respell(t *rapid.T, stream []byte) []byte {
	end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end")
	space := rapid.SampledFrom([]string{"", " "}).Draw(t, "space after colon")
	var out strings.Builder
	for _, event := range strings.Split(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		var lines bytes.Buffer
		switch {
		case !ok:
			out.WriteString(event + end)
		case rapid.Bool().Draw(t, "several lines") && json.Indent(&lines, []byte(data), "", "  ") == nil:
			for _, l := range strings.Split(lines.String(), "\n") {
				out.WriteString("data:" + space + l + end)
			}
		default:
			out.WriteString("data:" + space + data + end)
		}
		for _, noise := range []string{": keepalive", "event: message", "id: 7", "retry: 10", ": a\n\n: b"} {
			if rapid.IntRange(0, 9).Draw(t, "noise") == 0 {
				out.WriteString(strings.ReplaceAll(noise, "\n", end) + end)
			}
		}
		out.WriteString(end)
	}
	return []byte(out.String())
}

func drawResponse(t *rapid.T) Response {
	str := rapid.StringOf(rapid.RuneFrom([]rune("ab \n\r\t\"\\{}[]:,é漢😀\u2028data: [DONE]")))
	r := Response{ID: "id-1", Model: "m", FinishReason: rapid.SampledFrom([]string{"stop", "length", "tool_calls"}).Draw(t, "finish")}
	r.Message = Message{Role: "assistant", Content: str.Draw(t, "content"), Reasoning: str.Draw(t, "reasoning")}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		r.Message.ToolCalls = append(r.Message.ToolCalls, ToolCall{ID: "call_" + string(rune('a'+i)), Name: "bash", Arguments: str.Draw(t, "arguments")})
	}
	if rapid.Bool().Draw(t, "usage") {
		cached := rapid.Int64Range(0, 9).Draw(t, "cached")
		r.Usage = &Usage{PromptTokens: 12, CompletionTokens: 3, CachedTokens: &cached}
	}
	if rapid.Bool().Draw(t, "ids") {
		r.PromptIDs = []int32{1, 2, 3}
		r.CompletionIDs = rapid.SliceOfN(rapid.Int32Range(0, 1<<17), 1, 20).Draw(t, "completion ids")
		for range r.CompletionIDs {
			r.LogProbs = append(r.LogProbs, -float32(rapid.IntRange(0, 100).Draw(t, "lp"))/8)
		}
		r.WeightVersion = "step-7"
	}
	return r
}

func TestAnyChunkingOfAStreamIsTheWholeAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawResponse(t)
		whole, err := readWhole(bytes.NewReader(EncodeWhole(want)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, whole); d != "" {
			t.Fatalf("whole answer (-want +got):\n%s", d)
		}
		stream := respell(t, EncodeStream(want, rapid.IntRange(1, 9).Draw(t, "piece")))
		sizes := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 8).Draw(t, "read sizes")
		got, err := readStream(&pieces{b: stream, size: sizes})
		if err != nil {
			t.Fatalf("%v in %q", err, stream)
		}
		if d := cmp.Diff(whole, got); d != "" {
			t.Fatalf("stream %q (-whole +stream):\n%s", stream, d)
		}
	})
}

func TestACutStreamIsAnErrorWhereverItIsCut(t *testing.T) {
	t.Parallel()
	stream := EncodeStream(Response{
		Message:      Message{Content: "hello world", ToolCalls: []ToolCall{{ID: "1", Name: "bash", Arguments: `{"command":"ls"}`}}},
		FinishReason: "tool_calls", Usage: &Usage{PromptTokens: 1, CompletionTokens: 1},
	}, 3)
	end := bytes.LastIndex(stream, []byte("[DONE]")) + len("[DONE]")
	for n := range end {
		if r, err := readStream(bytes.NewReader(stream[:n])); err == nil {
			t.Fatalf("cut at byte %d of %d: answer %+v, want an error", n, len(stream), r)
		}
	}
	if _, err := readStream(bytes.NewReader(stream[:end])); err != nil {
		t.Errorf("everything up to [DONE] came: %v", err)
	}
}

func TestStreamsOfRealServers(t *testing.T) {
	t.Parallel()
	const done = "data: [DONE]\n\n"
	finish := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	event := func(delta string) string { return `data: {"choices":[{"index":0,"delta":` + delta + "}]}\n\n" }
	tests := []struct {
		name, stream string
		want         Response
	}{
		{"id and name repeated in every piece",
			event(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"co"}}]}`) +
				event(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"m\":1}"}}]}`) + finish + done,
			Response{Message: Message{ToolCalls: []ToolCall{{ID: "a", Name: "bash", Arguments: `{"com":1}`}}}}},
		{"pieces of two calls interleaved",
			event(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"1"}},{"index":1,"id":"b","function":{"name":"y","arguments":"2"}}]}`) +
				event(`{"tool_calls":[{"index":1,"function":{"arguments":"2"}},{"index":0,"function":{"arguments":"1"}}]}`) + finish + done,
			Response{Message: Message{ToolCalls: []ToolCall{{ID: "a", Name: "x", Arguments: "11"}, {ID: "b", Name: "y", Arguments: "22"}}}}},
		{"every call has index 0 but its own id",
			event(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"1"}}]}`) +
				event(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"x","arguments":"2"}}]}`) + finish + done,
			Response{Message: Message{ToolCalls: []ToolCall{{ID: "a", Name: "x", Arguments: "1"}, {ID: "b", Name: "x", Arguments: "2"}}}}},
		{"no index at all",
			event(`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}},{"id":"b","function":{"name":"y","arguments":"{}"}}]}`) + finish + done,
			Response{Message: Message{ToolCalls: []ToolCall{{ID: "a", Name: "x", Arguments: "{}"}, {ID: "b", Name: "y", Arguments: "{}"}}}}},
		{"reasoning in vLLM's new spelling", event(`{"reasoning":"why "}`) + event(`{"reasoning":"not"}`) + finish + done,
			Response{Message: Message{Reasoning: "why not"}}},
		{"both spellings in one piece count once", event(`{"reasoning":"hm","reasoning_content":"hm"}`) + finish + done,
			Response{Message: Message{Reasoning: "hm"}}},
		{"usage in a chunk with empty choices", event(`{"content":"x"}`) + finish + `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}` + "\n\n" + done,
			Response{Message: Message{Content: "x"}, Usage: &Usage{PromptTokens: 7, CompletionTokens: 2, ReasoningTokens: ptr(int64(1))}}},
		{"another choice is not mixed in", `data: {"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}` + "\n\n" + finish + done,
			Response{Message: Message{Content: "yes"}}},
		{"unknown fields and null content", event(`{"content":null,"refusal":null,"annotations":[{}]}`) + event(`{"content":"x"}`) + finish + done,
			Response{Message: Message{Content: "x"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Message.Role, tt.want.FinishReason = "assistant", "stop"
			got, err := readStream(strings.NewReader(tt.stream))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		class        Class // -1: the terminal event is missing
	}{
		{"a page", "<html><body>Sign in</body></html>", Nonsense},
		{"nothing", "", Nonsense},
		{"an event that is no JSON", "data: oops\n\n", Nonsense},
		{"an error event", `data: {"error":{"message":"engine died","code":500}}` + "\n\n", Transient},
		{"an error event about the length", `data: {"error":{"message":"This model's maximum context length is 8 tokens","code":400}}` + "\n\n", TooLong},
		{"aborted by the server", `data: {"choices":[{"index":0,"delta":{"content":"half"},"finish_reason":"abort"}]}` + "\n\ndata: [DONE]\n\n", Transient},
		{"done without a finish reason", `data: {"choices":[{"index":0,"delta":{"content":"half"}}]}` + "\n\ndata: [DONE]\n\n", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := readStream(strings.NewReader(tt.stream))
			if tt.class < 0 {
				if !errors.Is(err, errCut) {
					t.Errorf("got %v, want %v", err, errCut)
				}
			} else if !Is(err, tt.class) {
				t.Errorf("got %v, want class %s", err, tt.class)
			}
		})
	}
}

func TestTokenIDSpellings(t *testing.T) {
	t.Parallel()
	const tail = `"message":{"content":"ab"},"finish_reason":"stop"}]}`
	tests := []struct {
		name, body string
		want       Response
	}{
		{"vllm return_token_ids", `{"prompt_token_ids":[1],"choices":[{"token_ids":[5,6],"logprobs":{"content":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-1}]},` + tail,
			Response{PromptIDs: []int32{1}, CompletionIDs: []int32{5, 6}, LogProbs: []float32{-0.5, -1}}},
		{"vllm return_tokens_as_token_ids", `{"choices":[{"logprobs":{"content":[{"token":"token_id:5","logprob":-0.5},{"token":"token_id:6","logprob":-1}]},` + tail,
			Response{CompletionIDs: []int32{5, 6}, LogProbs: []float32{-0.5, -1}}},
		{"sglang chat route", `{"metadata":{"weight_version":"w3"},"choices":[{"prompt_token_ids":[1,2],"token_ids":[5,6],` + tail,
			Response{PromptIDs: []int32{1, 2}, CompletionIDs: []int32{5, 6}, WeightVersion: "w3"}},
		{"sglang meta_info", `{"choices":[{"meta_info":{"output_token_logprobs":[[-0.5,5,"a"],[-1,6,null]],"weight_version":"w4"},` + tail,
			Response{CompletionIDs: []int32{5, 6}, LogProbs: []float32{-0.5, -1}, WeightVersion: "w4"}},
		{"log-probs that do not match the ids are dropped", `{"choices":[{"token_ids":[5,6],"logprobs":{"content":[{"token":"a","logprob":-0.5}]},` + tail,
			Response{CompletionIDs: []int32{5, 6}}},
		{"log-probs without ids", `{"choices":[{"logprobs":{"content":[{"token":"a","logprob":-0.5}]},` + tail,
			Response{LogProbs: []float32{-0.5}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Message, tt.want.FinishReason = Message{Role: "assistant", Content: "ab"}, "stop"
			got, err := readWhole(strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestWholeAnswersOfRealServers(t *testing.T) {
	t.Parallel()
	got, err := readWhole(strings.NewReader(`{"choices":[{"index":0,"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
		"tool_calls":[{"id":"1","type":"function","function":{"name":"bash","arguments":{"command":"ls"}}}]},"finish_reason":"tool_calls"}]}`))
	want := Response{Message: Message{Role: "assistant", Content: "ab", ToolCalls: []ToolCall{{ID: "1", Name: "bash", Arguments: `{"command":"ls"}`}}}, FinishReason: "tool_calls"}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("content parts and arguments as an object (-want +got):\n%s", d)
	}
	for name, body := range map[string]string{"string": `"abort"`, "object": `{"type":"abort","message":"paused"}`} {
		if r, err := readWhole(strings.NewReader(`{"choices":[{"message":{"content":"half"},"finish_reason":` + body + `}]}`)); !Is(err, Transient) {
			t.Errorf("aborted, as %s: got %+v, %v, want class transient", name, r, err)
		}
	}
	for name, body := range map[string]string{
		"html": "<html>hello</html>", "no choices": `{"choices":[]}`, "another document": `{"status":"ok"}`,
		"choice without message": `{"choices":[{"index":0}]}`, "list": `[]`, "empty": ``,
	} {
		if r, err := readWhole(strings.NewReader(body)); !Is(err, Nonsense) {
			t.Errorf("%s: got %+v, %v, want class nonsense", name, r, err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func FuzzReadStream(f *testing.F) {
	f.Add(EncodeStream(Response{Message: Message{Content: "héllo", ToolCalls: []ToolCall{{ID: "1", Name: "n", Arguments: "{}"}}}, FinishReason: "stop"}, 2))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{},{\"index\":-1}]}}]}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err1 := readStream(bytes.NewReader(b))
		bytewise, err2 := readStream(&pieces{b: b, size: []int{1}})
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("at once: %v; byte by byte: %v", err1, err2)
		}
		if d := cmp.Diff(whole, bytewise); d != "" {
			t.Fatal(d)
		}
	})
}
