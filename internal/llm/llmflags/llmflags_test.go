package llmflags_test

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"orchard/internal/llm"
	"orchard/internal/llm/llmflags"
)

func run(t *testing.T, args ...string) (llm.Options, string) {
	t.Helper()
	var o llm.Options
	var out strings.Builder
	app := &cli.App{Name: "x", Writer: &out, ErrWriter: io.Discard, Flags: llmflags.Flags(&o), Action: func(*cli.Context) error { return nil }}
	if err := app.RunContext(t.Context(), append([]string{"x"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o, out.String()
}

// Not parallel: it sets the environment.
func TestFlagsAndTheirEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-from-the-environment")
	t.Setenv("OPENAI_BASE_URL", "http://env/v1")
	t.Setenv("ORCHARD_LLM_MODEL", "env-model")
	got, _ := run(t, "--llm-model", "flag-model", "--llm-budget-usd", "2.5", "--llm-price-in", "1")
	want := llm.Options{URL: "http://env/v1", Model: "flag-model", Key: "sk-from-the-environment", Timeout: llm.DefaultTimeout,
		MaxRetries: llm.DefaultMaxRetries, BudgetUSD: 2.5, PriceIn: 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, help := run(t, "--help"); strings.Contains(help, "sk-from") || !strings.Contains(help, "OPENAI_BASE_URL") {
		t.Errorf("help tells the key, or not the environment:\n%s", help)
	}
}
