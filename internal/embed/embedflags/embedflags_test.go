package embedflags_test

import (
	"io"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	"orchard/internal/embed"
	"orchard/internal/embed/embedflags"
)

// Stages share these names, and none is there that embeddings do not need.
func TestFlags(t *testing.T) {
	t.Parallel()
	o := embed.Options{Batch: embed.DefaultBatch}
	var names []string
	flags := embedflags.Flags(&o, "X")
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	if want := []string{"llm-url", "llm-key-file", "llm-ca-file", "llm-proxy", "llm-timeout", "llm-max-retries", "embedding-model", "embedding-batch"}; !slices.Equal(names, want) {
		t.Errorf("flags %v, want %v", names, want)
	}
	app := &cli.App{Name: "x", Writer: io.Discard, Flags: flags, Action: func(*cli.Context) error { return nil }}
	if err := app.RunContext(t.Context(), []string{"x", "--llm-url", "http://h/v1", "--embedding-model", "e", "--embedding-batch", "7"}); err != nil {
		t.Fatal(err)
	}
	if o.LLM.URL != "http://h/v1" || o.Model != "e" || o.Batch != 7 {
		t.Errorf("%+v", o)
	}
}
