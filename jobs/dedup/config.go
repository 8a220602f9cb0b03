// Package dedup is the stage that leaves out tasks which are duplicates of others: of the
// same text, of nearly the same text, or of the same meaning by their embeddings.
//
// Tasks are decided in a stated order: one stays unless it is a duplicate of a task that
// stays before it. So each task that is removed names the task that stands for it in the
// output, and chains do not pull in what is not alike. The core is pure: greedy decides,
// minhash and cosine find, embed (both in internal) makes vectors.
package dedup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/embed"
	"orchard/internal/embed/embedflags"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/jobs/dedup/minhash"
)

// Version goes up whenever the rows or files for the same inputs and answers change.
const Version = 1

// The methods, in the order in which they are asked; the first that finds a twin counts.
const (
	MethodExact    = "exact"
	MethodMinHash  = "minhash"
	MethodSemantic = "semantic"
)

var methods = []string{MethodExact, MethodMinHash, MethodSemantic}

// What --approximate takes.
const (
	ApproximateAuto   = "auto" // over approximateOver rows
	ApproximateNever  = "never"
	ApproximateAlways = "always"
)

// approximateOver is from how many rows on an exact search takes too long to be the default.
const approximateOver = 1_000_000

// Config is the stage's settings.
type Config struct {
	runner.Config

	Column  string
	Order   string
	Methods string // a list with commas

	Shingle     string // words or chars
	N           int
	Bands, Rows int
	Jaccard     float64
	Verify      bool

	Tau         float64
	Embedding   embed.Options
	Matryoshka  bool
	Approximate string
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{
		Config: runner.Default(), Column: "problem_statement", Order: "task_id", Methods: strings.Join(methods, ","),
		Shingle: "words", N: 5, Bands: 14, Rows: 8, Jaccard: 0.8, Verify: true,
		Tau: 0.99, Embedding: embed.Options{Batch: embed.DefaultBatch}, Approximate: ApproximateAuto,
	}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const near, semantic = "NEAR DUPLICATES", "SEMANTIC DUPLICATES"
	flags := append(runner.Flags(&c.Config), embedflags.Flags(&c.Embedding, semantic)...)
	return append(flags,
		&cli.StringFlag{Name: "column", EnvVars: []string{"ORCHARD_DEDUP_COLUMN"}, Destination: &c.Column, Value: c.Column, Usage: "text that is compared: a `COLUMN` of text, such as patch (its changed lines are), or row.NAME for one of the imported row"},
		&cli.StringFlag{Name: "order", EnvVars: []string{"ORCHARD_DEDUP_ORDER"}, Destination: &c.Order, Value: c.Order, Usage: "`COLUMNS` that say which of two duplicates stays, the first; -column is from the greatest on, row.NAME one of the imported row; task_id decides at last"},
		&cli.StringFlag{Name: "methods", EnvVars: []string{"ORCHARD_DEDUP_METHODS"}, Destination: &c.Methods, Value: c.Methods, Usage: "`LIST` of exact, minhash and semantic"},
		&cli.StringFlag{Name: "shingle", Category: near, EnvVars: []string{"ORCHARD_DEDUP_SHINGLE"}, Destination: &c.Shingle, Value: c.Shingle, Usage: "what texts are cut into: words, or chars for short ones"},
		&cli.IntFlag{Name: "ngram", Category: near, EnvVars: []string{"ORCHARD_DEDUP_NGRAM"}, Destination: &c.N, Value: c.N, Usage: "words or characters in a shingle"},
		&cli.IntFlag{Name: "bands", Category: near, EnvVars: []string{"ORCHARD_DEDUP_BANDS"}, Destination: &c.Bands, Value: c.Bands, Usage: "bands of hashes; two texts that share one are compared"},
		&cli.IntFlag{Name: "rows", Category: near, EnvVars: []string{"ORCHARD_DEDUP_ROWS"}, Destination: &c.Rows, Value: c.Rows, Usage: "hashes in a band"},
		&cli.Float64Flag{Name: "jaccard", Category: near, EnvVars: []string{"ORCHARD_DEDUP_JACCARD"}, Destination: &c.Jaccard, Value: c.Jaccard, Usage: "least share of common shingles of duplicates"},
		&cli.BoolFlag{Name: "verify", Category: near, EnvVars: []string{"ORCHARD_DEDUP_VERIFY"}, Destination: &c.Verify, Value: c.Verify, Usage: "compare the shingles of texts that share a band; without it they are duplicates"},
		&cli.Float64Flag{Name: "tau", Category: semantic, EnvVars: []string{"ORCHARD_DEDUP_TAU"}, Destination: &c.Tau, Value: c.Tau, Usage: "least cosine of duplicates"},
		&cli.BoolFlag{Name: "matryoshka", Category: semantic, EnvVars: []string{"ORCHARD_DEDUP_MATRYOSHKA"}, Destination: &c.Matryoshka, Value: c.Matryoshka, Usage: "the model's leading numbers hold the most: search by them; changes the time alone"},
		&cli.StringFlag{Name: "approximate", Category: semantic, EnvVars: []string{"ORCHARD_DEDUP_APPROXIMATE"}, Destination: &c.Approximate, Value: c.Approximate, Usage: "search by SimHash, which misses some pairs: never, always, or auto (over a million rows)"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := textOf(c.Column); err != nil {
		bad("--column: %w", err)
	}
	if _, err := parseOrder(c.Order); err != nil {
		bad("--order: %w", err)
	}
	if _, err := c.methods(); err != nil {
		bad("--methods: %w", err)
	}
	if c.Shingle != "words" && c.Shingle != "chars" {
		bad("--shingle: %q is neither words nor chars", c.Shingle)
	}
	if err := c.minhash().Validate(); err != nil {
		bad("--ngram, --bands, --rows, --jaccard: %w", err)
	}
	if !(c.Tau > 0 && c.Tau <= 1) {
		bad("--tau: %v must be over 0 and at most 1", c.Tau)
	}
	if !slices.Contains([]string{ApproximateAuto, ApproximateNever, ApproximateAlways}, c.Approximate) {
		bad("--approximate: %q is none of auto, never, always", c.Approximate)
	}
	errs = append(errs, c.embedding().Validate())
	return exit.With(exit.Config, errors.Join(errs...))
}

// methods is --methods in the order in which they are asked, whatever order it has.
func (c Config) methods() ([]string, error) {
	given := map[string]bool{}
	for m := range strings.SplitSeq(c.Methods, ",") {
		m = strings.TrimSpace(m)
		if !slices.Contains(methods, m) {
			return nil, fmt.Errorf("%q is none of %s", m, strings.Join(methods, ", "))
		}
		given[m] = true
	}
	return slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return !given[m] }), nil
}

// embedding is where vectors come from, when any are needed.
func (c Config) embedding() embed.Options {
	o := c.Embedding
	if list, err := c.methods(); err != nil || !slices.Contains(list, MethodSemantic) {
		o.Model = "" // nobody is asked
	}
	return o
}

func (c Config) minhash() minhash.Options {
	return minhash.Options{N: c.N, Chars: c.Shingle == "chars", Bands: c.Bands, Rows: c.Rows, Jaccard: c.Jaccard, Trust: !c.Verify, Workers: c.Workers, Seed: uint64(c.Seed)}
}

// settings is what decides the rows beside the inputs and the server's answers.
type settings struct {
	Column      string   `json:"column"`
	Order       string   `json:"order"`
	Methods     []string `json:"methods"`
	Shingle     string   `json:"shingle"`
	N           int      `json:"ngram"`
	Bands       int      `json:"bands"`
	Rows        int      `json:"rows"`
	Jaccard     float64  `json:"jaccard"`
	Verify      bool     `json:"verify"`
	Tau         float64  `json:"tau"`
	Embedding   string   `json:"embedding"` // hashed-ngram-v1, or "model " and its name
	Approximate string   `json:"approximate"`
}

func (c Config) settings() settings {
	list, _ := c.methods() // valid by now
	return settings{
		Column: c.Column, Order: c.Order, Methods: list, Shingle: c.Shingle, N: c.N, Bands: c.Bands, Rows: c.Rows, Jaccard: c.Jaccard,
		Verify: c.Verify, Tau: c.Tau, Embedding: c.Embedding.Name(), Approximate: c.Approximate,
	}
}
