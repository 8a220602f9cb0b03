// Package filter is the stage that leaves tasks out: by the rules of a file, by what
// admission said of them, and by their nearness to evaluation sets.
//
// Every task read is a row of the result or dropped under its first reason, and every
// dropped one is listed with rule and detail. The work is in the packages below: rules
// (expressions), contamination (evaluation sets), funnel (table and picture); here they
// are put in order and fed. No model is asked, and the same inputs give the same bytes,
// unless one for embeddings is named and statement_cosine is made.
package filter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/embed"
	"orchard/internal/embed/embedflags"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/jobs/filter/contamination"
)

// Version goes up whenever the rows or files for the same inputs change.
const Version = 1

// Config is the stage's settings.
type Config struct {
	runner.Config
	Rules      string   // name of a ready rule file, or the path of one; "" for none
	Sets       []string // NAME=FILE
	Admission  string   // URI; "" for none
	Evals      []string // URI or NAME=URI
	EvalChecks string   // comma-separated, of contamination.All
	Limits     contamination.Limits
	Embedding  embed.Options // of statement_cosine
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{
		Config: runner.Default(), EvalChecks: contamination.Join(contamination.Default), Limits: contamination.DefaultLimits(),
		Embedding: embed.Options{Batch: embed.DefaultBatch},
	}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const evals = "EVALUATION SETS"
	flags := append(runner.Flags(&c.Config), embedflags.Flags(&c.Embedding, evals)...)
	return append(flags,
		&cli.StringFlag{Name: "rules", EnvVars: []string{"ORCHARD_FILTER_RULES"}, Destination: &c.Rules, Usage: "`NAME` of a ready rule file (orchard filter rules ls), or the path of one"},
		runner.ListFlag("set", "ORCHARD_FILTER_SET", "", "`NAME=FILE` for a set of the rule file, a value a line; repeatable, several for one name are one set (in the environment: one per line)", &c.Sets),
		&cli.StringFlag{Name: "admission", EnvVars: []string{"ORCHARD_FILTER_ADMISSION"}, Destination: &c.Admission, Usage: "`URI` of an admission dataset: tasks that it does not admit are dropped first"},
		runner.ListFlag("eval", "ORCHARD_FILTER_EVAL", evals, "`[NAME=]URI` of the tasks of an evaluation set, repeatable; tasks found in it are dropped (in the environment: one per line)", &c.Evals),
		&cli.StringFlag{Name: "eval-checks", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_CHECKS"}, Destination: &c.EvalChecks, Value: c.EvalChecks, Usage: "how tasks are compared, of " + contamination.Join(contamination.All)},
		&cli.IntFlag{Name: "eval-ngram", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_NGRAM"}, Destination: &c.Limits.Ngram, Value: c.Limits.Ngram, Usage: "statement_ngram: `WORDS` in a row that are compared"},
		&cli.Float64Flag{Name: "eval-coverage", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_COVERAGE"}, Destination: &c.Limits.Coverage, Value: c.Limits.Coverage, Usage: "statement_ngram: least share, 0 to 1, of the evaluation statement's runs of words; 0 is any one"},
		&cli.Float64Flag{Name: "eval-patch", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_PATCH"}, Destination: &c.Limits.Patch, Value: c.Limits.Patch, Usage: "patch_similarity: least Jaccard similarity, above 0 to 1"},
		&cli.Float64Flag{Name: "eval-tests", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_TESTS"}, Destination: &c.Limits.Tests, Value: c.Limits.Tests, Usage: "test_names: least share, above 0 to 1, of the evaluation task's FAIL_TO_PASS"},
		&cli.Float64Flag{Name: "eval-cosine", Category: evals, EnvVars: []string{"ORCHARD_FILTER_EVAL_COSINE"}, Destination: &c.Limits.Cosine, Value: c.Limits.Cosine, Usage: "statement_cosine: least cosine, above 0 to 1, of the embeddings of statements"},
	)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Rules == "" && c.Admission == "" && len(c.Evals) == 0 {
		bad("--rules: give a rule file, or its name from `orchard filter rules ls`; or filter by --admission or --eval alone")
	}
	if len(c.Sets) > 0 && c.Rules == "" {
		bad("--set: goes with --rules")
	}
	if _, err := c.sets(); err != nil {
		errs = append(errs, err)
	}
	for _, e := range c.Evals {
		if _, uri := evalName(e); uri == "" {
			bad("--eval: %q must be URI or NAME=URI", e)
		}
	}
	if checks, err := c.checks(); err != nil {
		bad("--eval-checks: %w", err)
	} else if len(checks) == 0 {
		bad("--eval-checks: name at least one, or leave out --eval")
	}
	if c.Limits.Ngram < 1 || c.Limits.Ngram > 100 {
		bad("--eval-ngram: %d must be 1 to 100", c.Limits.Ngram)
	}
	if !(c.Limits.Coverage >= 0 && c.Limits.Coverage <= 1) {
		bad("--eval-coverage: %v must be 0 to 1", c.Limits.Coverage)
	}
	if !(c.Limits.Patch > 0 && c.Limits.Patch <= 1) {
		bad("--eval-patch: %v must be above 0 and at most 1", c.Limits.Patch)
	}
	if !(c.Limits.Tests > 0 && c.Limits.Tests <= 1) {
		bad("--eval-tests: %v must be above 0 and at most 1", c.Limits.Tests)
	}
	if !(c.Limits.Cosine > 0 && c.Limits.Cosine <= 1) {
		bad("--eval-cosine: %v must be above 0 and at most 1", c.Limits.Cosine)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// sets is the files of --set by name.
func (c Config) sets() (map[string][]string, error) {
	out := map[string][]string{}
	for _, s := range c.Sets {
		name, path, ok := strings.Cut(s, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--set: %q must be NAME=FILE", s)
		}
		out[name] = append(out[name], path)
	}
	return out, nil
}

// checks is --eval-checks.
func (c Config) checks() ([]contamination.Check, error) {
	return contamination.ParseChecks(strings.FieldsFunc(c.EvalChecks, func(r rune) bool { return r == ',' || r == ' ' }))
}

var named = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)=(.*)$`)

// evalName takes NAME=URI apart; without a name it is "", and the dataset's is used.
func evalName(s string) (name, uri string) {
	if m := named.FindStringSubmatch(s); m != nil {
		return m[1], m[2]
	}
	return "", s
}
