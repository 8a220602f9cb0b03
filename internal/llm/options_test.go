package llm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
)

func TestValidateNamesTheFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		o    llm.Options
		says []string
	}{
		{"nothing given", llm.Options{}, []string{"--llm-url (OPENAI_BASE_URL)", "--llm-model"}},
		{"no scheme", llm.Options{URL: "localhost:8000", Model: "m"}, []string{"http://"}},
		{"negative", llm.Options{URL: "http://h", Model: "m", Timeout: -time.Second, Concurrency: -1}, []string{"--llm-timeout", "--llm-concurrency"}},
		{"budget without a price", llm.Options{URL: "http://h", Model: "m", BudgetUSD: 1}, []string{"--llm-budget-usd", "--llm-price-in"}},
		{"proxy", llm.Options{URL: "http://h", Model: "m", Proxy: "user:secretpass@proxy"}, []string{"--llm-proxy"}},
		{"no such CA", llm.Options{URL: "http://h", Model: "m", CAFile: "/nonexistent/ca"}, []string{"--llm-ca-file"}},
		{"no such key file", llm.Options{URL: "http://h", Model: "m", KeyFile: "/nonexistent/key"}, []string{"--llm-key-file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := llm.New(tt.o)
			for _, s := range tt.says {
				if err == nil || !strings.Contains(err.Error(), s) || strings.Contains(err.Error(), "secretpass") {
					t.Errorf("got %v, want %q in it", err, s)
				}
			}
		})
	}
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(content string) string {
		f := filepath.Join(dir, fmt.Sprint(len(content)))
		if err := os.WriteFile(f, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	s := llmtest.New(t, nil, llmtest.Script(llmtest.Text("x")))
	c := client(t, s.URL, func(o *llm.Options) { o.KeyFile = write("from-the-file\n") })
	if _, err := c.Chat(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	if got := s.Requests()[0].Header.Get("Authorization"); got != "Bearer from-the-file" {
		t.Errorf("Authorization %q, want the file's key", got)
	}
	for _, content := range []string{"", "two\nlines"} {
		if _, err := llm.New(llm.Options{URL: s.URL, Model: "m", KeyFile: write(content)}); err == nil {
			t.Errorf("key file %q: no error", content)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	o := llm.Options{Key: key}
	j, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(o), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o), o.Key.String(), fmt.Sprintf("%q", o.Key), string(j)} {
		if strings.Contains(s, key) || !strings.Contains(s, "***") {
			t.Errorf("%s tells the key", s)
		}
	}
}
