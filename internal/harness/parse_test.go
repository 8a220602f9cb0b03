package harness

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/llm"
)

func TestTextActions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     string // the command
		blocks   int    // other than 1: rejected
	}{
		{"one", "THOUGHT: look\n\n```bash\nls -la\n```", "ls -la", 1},
		{"several lines, trimmed", "```bash\n\n  cat <<'E'\nx\nE\n  \n```\nafter", "cat <<'E'\nx\nE", 1},
		{"white space after the word", "```bash \t\u00a0\v\nls\n```", "ls", 1},
		{"an empty block is a command", "```bash\n\n```", "", 1},
		{"none", "I am done.", "", 0},
		{"two", "```bash\nls\n```\n```bash\npwd\n```", "", 2},
		{"another language", "```sh\nls\n```", "", 0},
		{"no line end before the fence", "```bash\nls```", "", 0},
		{"on one line", "```bash ls```", "", 0},
		{"a longer word", "```bashful\nls\n```", "", 0},
		{"not closed", "```bash\nls\n", "", 0},
		{"other blocks do not count", "```python\nx\n```\n```bash\nls\n```", "ls", 1},
		{"a block inside ends it at the first fence", "```bash\ncat <<'E'\n```\nE\n```", "cat <<'E'", 1},
		{"version 2's block", "```mswea_bash_command\nls\n```", "", 0},
	}
	for _, tt := range tests {
		got, bad := protocols[2].parse(llm.Message{Content: tt.in})
		switch {
		case tt.blocks == 1 && (bad != nil || len(got) != 1 || got[0].command != tt.want):
			t.Errorf("%s: got %+v, %+v, want %q", tt.name, got, bad, tt.want)
		case tt.blocks != 1 && (bad == nil || bad.blocks != tt.blocks || len(got) != 0):
			t.Errorf("%s: got %+v, %+v, want %d blocks", tt.name, got, bad, tt.blocks)
		}
	}
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	call := func(name, args string) llm.ToolCall { return llm.ToolCall{ID: "c", Name: name, Arguments: args} }
	tests := []struct {
		name  string
		calls []llm.ToolCall
		want  []action
		says  []string // of the rejection
	}{
		{"one", []llm.ToolCall{call("bash", `{"command":"ls"}`)}, []action{{"ls", "c"}}, nil},
		{"not trimmed, further arguments ignored", []llm.ToolCall{call("bash", `{"command":" ls \n","why":1}`)}, []action{{" ls \n", "c"}}, nil},
		{"several keep their order", []llm.ToolCall{call("bash", `{"command":"a"}`), call("bash", `{"command":"b"}`)}, []action{{"a", "c"}, {"b", "c"}}, nil},
		{"none", nil, nil, []string{"no tool call"}},
		{"unknown tool", []llm.ToolCall{call("python", `{"command":"ls"}`)}, nil, []string{`no tool "python"`}},
		{"no JSON", []llm.ToolCall{call("bash", `{"command":"l`)}, nil, []string{"no JSON object", `"command" is missing`}},
		{"a list", []llm.ToolCall{call("bash", `["command"]`)}, nil, []string{"no JSON object", "missing"}},
		{"null", []llm.ToolCall{call("bash", `null`)}, nil, []string{"missing"}},
		{"missing", []llm.ToolCall{call("bash", `{"cmd":"ls"}`)}, nil, []string{"missing"}},
		{"no string", []llm.ToolCall{call("bash", `{"command":["ls"]}`)}, nil, []string{"must be a string"}},
		{"everything at once", []llm.ToolCall{call("sh", `{`)}, nil, []string{"no JSON object", `no tool "sh"`, "missing"}},
		{"one bad call rejects the good ones", []llm.ToolCall{call("bash", `{"command":"a"}`), call("bash", `{}`), call("bash", `{"command":"b"}`)}, nil, []string{"missing"}},
	}
	for _, tt := range tests {
		got, bad := protocols[0].parse(llm.Message{ToolCalls: tt.calls})
		if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(action{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
		if (bad != nil) != (tt.says != nil) {
			t.Errorf("%s: rejection %+v", tt.name, bad)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(bad.reason, s) {
				t.Errorf("%s: reason %q misses %q", tt.name, bad.reason, s)
			}
		}
	}
}

// blocksByHand finds what the expression finds, in another way.
func blocksByHand(s, word string) []string {
	var out []string
	for {
		i := strings.Index(s, "```"+word)
		if i < 0 {
			return out
		}
		body := s[i+3+len(word):]
		// The white space before the block goes as far as it can while a line feed
		// still ends it and the block still closes.
		space := len(body) - len(strings.TrimLeftFunc(body, isSpace))
		next := -1
		for end := space; end > 0; end-- {
			if body[end-1] != '\n' {
				continue
			}
			if j := strings.Index(body[end:], "\n```"); j >= 0 {
				out = append(out, body[end:end+j])
				next = i + 3 + len(word) + end + j + 4
				break
			}
		}
		if next < 0 {
			next = i + 1
		}
		s = s[next:]
	}
}

func FuzzTextActions(f *testing.F) {
	for _, s := range []string{"```bash\nls\n```", "```bash \n\n\n```\n```bash\na\n```", "```bash\n```bash\nx\n```", "``````bash\u2028\n\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?") // a model's answer is JSON
		want := blocksByHand(s, "bash")
		got, bad := protocols[2].parseText(s)
		switch {
		case len(want) == 1 && (bad != nil || got[0].command != strip(want[0])):
			t.Fatalf("%q: got %+v, %+v, want %q", s, got, bad, want[0])
		case len(want) != 1 && (bad == nil || bad.blocks != len(want)):
			t.Fatalf("%q: got %+v, %+v, want %d blocks", s, got, bad, len(want))
		}
	})
}
