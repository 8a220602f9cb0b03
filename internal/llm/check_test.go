package llm_test

import (
	"strings"
	"testing"

	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
)

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	s := llmtest.New(t, nil, llmtest.Script(llmtest.Text("x")))
	for _, base := range []string{s.URL, s.URL + "/", strings.TrimSuffix(s.URL, "/v1"), s.URL + "/chat/completions", s.URL + "/chat/completions/"} {
		if _, err := client(t, base, nil).Chat(t.Context(), hello); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	yes, no := llmtest.Text("x"), llmtest.Reply{Status: 404, Body: `{"error":{"message":"no such model"}}`}
	tests := []struct {
		name   string
		models []string
		reply  llmtest.Reply
		class  llm.Class
		says   string // "" is no error
	}{
		{"listed", []string{"a", "m"}, no, 0, ""},
		{"not listed but served", []string{"a"}, yes, 0, ""},
		{"no list", nil, yes, 0, ""},
		{"not listed", []string{"a", "b"}, no, llm.Refused, `no model "m" (--llm-model), but: a, b`},
		{"no list, no model", nil, no, llm.Refused, "no such model"},
		{"no API at all", nil, llmtest.Reply{Body: "<html>"}, llm.Nonsense, "OPENAI_BASE_URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.New(t, tt.models, llmtest.Script(tt.reply))
			err := client(t, s.URL, nil).Check(t.Context())
			if tt.says == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !llm.Is(err, tt.class) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want class %s and %q", err, tt.class, tt.says)
			}
		})
	}
}
