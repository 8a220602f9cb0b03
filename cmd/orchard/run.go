package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"orchard/internal/exit"
	"orchard/internal/pipeline"
	"orchard/internal/pipeline/backing"
	pipelines "orchard/internal/pipeline/command"
	"orchard/internal/sandbox/local"
	"orchard/jobs/report"
	"orchard/jobs/scripted"

	policy "orchard/internal/llm/scripted"
)

// back starts what a run's steps need and the environment does not name.
func back(ctx context.Context, p pipelines.Plan) (env []string, stop func(), err error) {
	o := backing.Options{
		StateDir: filepath.Join(p.StateDir, "sandboxes"), CacheDir: local.DefaultCache(),
		SandboxURL: os.Getenv("SANDBOX_BASE_URL"),
		Say:        func(format string, a ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", a...) },
	}
	var logs []*os.File
	open := func(name string) (*os.File, error) {
		f, err := os.OpenFile(filepath.Join(p.Dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, exit.With(exit.Gone, fmt.Errorf("log of the run: %w", err))
		}
		logs = append(logs, f)
		return f, nil
	}
	done := func() {
		for _, f := range logs {
			_ = f.Close() // appended and never read back here
		}
	}
	boxes, err := open("sandboxes.jsonl")
	if err != nil {
		return nil, nil, err
	}
	o.Log = zerolog.New(boxes).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if p.Params["llm-url"] == "" && os.Getenv("OPENAI_BASE_URL") == "" {
		requests, err := open("model-requests.jsonl")
		if err != nil {
			done()
			return nil, nil, err
		}
		o.Policy, o.PolicyName = scripted.Follow(openStore, p.Params["out"]+"/tasks", requests), policy.Model
	}
	env, halt, err := backing.Start(ctx, o)
	if err != nil {
		done()
		return nil, nil, err
	}
	return env, func() { halt(); done() }, nil
}

// closing prints what a run made: the report's table, everything's address, and what to
// try next.
func closing(ctx context.Context, w io.Writer, p pipelines.Plan, res pipeline.Result) {
	fmt.Fprintln(w)
	out := maps.Clone(res.Outputs)
	if out["report"] != "" {
		page, err := report.Print(ctx, w, openStore, out["report"])
		if err != nil {
			fmt.Fprintln(w, "report:", err)
		}
		out["report"] = page
		fmt.Fprintln(w)
	}
	self, folder := shellWord(os.Args[0]), shown(p.Params["out"])
	if p.Pipeline == "swe-sft" {
		fmt.Fprintf(w, "dataset  %s\nSFT rows %s\nreport   %s\n", out["rollouts"], out["sft"], out["report"])
		fmt.Fprintf(w, `
Next:
  # look at any trajectory in a browser
  %s report serve %s
  # see a training example
  %s dataset head %s -n 1
  # your own tasks, your own model
  %s run swe-sft -p tasks=FILE -p out=DIR -p llm-url=URL -p llm-model=NAME
`, self, shellWord(folder+"/report"), self, shellWord(folder+"/sft"), self)
		return
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if out[name] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, strings.ReplaceAll(out[name], "\n", "\n\t"))
		}
	}
	_ = tw.Flush() // to a terminal, like what is above
	fmt.Fprintf(w, "\nNext:\n  # what there is, and what it was made from\n  %s dataset ls %s\n", self, shellWord(folder))
}

// shellWord is a word as a shell takes it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shown is a path as a person would type it here.
func shown(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}
