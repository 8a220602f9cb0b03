// Package embedflags binds the options of embeddings to a command line, with the flags of
// the model client that they need.
package embedflags

import (
	"slices"

	"github.com/urfave/cli/v2"

	"orchard/internal/embed"
	"orchard/internal/llm/llmflags"
)

// server is those flags of the model client that embeddings need.
var server = []string{"llm-url", "llm-key-file", "llm-ca-file", "llm-proxy", "llm-timeout", "llm-max-retries"}

// Flags are the flags that fill o when they are parsed, its own under a category of the help.
func Flags(o *embed.Options, category string) []cli.Flag {
	flags := slices.DeleteFunc(llmflags.Flags(&o.LLM), func(f cli.Flag) bool { return !slices.Contains(server, f.Names()[0]) })
	return append(flags,
		&cli.StringFlag{Name: "embedding-model", Category: category, EnvVars: []string{"ORCHARD_EMBEDDING_MODEL"}, Destination: &o.Model, Value: o.Model, Usage: "`NAME` of an embedding model at --llm-url; without it n-grams are hashed (" + embed.NgramMethod + ")"},
		&cli.IntFlag{Name: "embedding-batch", Category: category, EnvVars: []string{"ORCHARD_EMBEDDING_BATCH"}, Destination: &o.Batch, Value: o.Batch, Usage: "texts in one request at most"},
	)
}
