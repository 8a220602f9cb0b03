package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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

// closing prints the funnel of a run, where everything is, and what to try next.
func closing(ctx context.Context, w io.Writer, p pipelines.Plan, res pipeline.Result) {
	fmt.Fprintln(w)
	page, err := report.Print(ctx, w, openStore, res.Outputs["report"])
	if err != nil {
		fmt.Fprintln(w, "report:", err)
	}
	fmt.Fprintf(w, "\ndataset  %s\nSFT rows %s\nreport   %s\n", res.Outputs["rollouts"], res.Outputs["sft"], page)
	self, out := shellWord(os.Args[0]), shown(p.Params["out"])
	fmt.Fprintf(w, `
Next:
  # look at any trajectory in a browser
  %s report serve %s
  # see a training example
  %s dataset head %s -n 1
  # your own tasks, your own model
  %s run swe-sft -p tasks=FILE -p out=DIR -p llm-url=URL -p llm-model=NAME
`, self, shellWord(out+"/report"), self, shellWord(out+"/sft"), self)
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
