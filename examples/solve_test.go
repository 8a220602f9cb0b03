package examples_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/grade/parsers"

	"github.com/google/go-cmp/cmp"
)

// outcome is what the test commands of a task said.
type outcome struct {
	tests  map[string]string
	doubts []string
	log    string
}

// failing are those of names that did not pass.
func (o outcome) failing(names []string) (failed []string) {
	for _, n := range names {
		if o.tests[n] != record.TestPassed {
			failed = append(failed, fmt.Sprintf("%s: %q", n, o.tests[n]))
		}
	}
	return failed
}

// runTests runs the test commands of a task in dir and reads what they print as the
// grader does, but without a sandbox.
func runTests(t *testing.T, k task, dir string) outcome {
	t.Helper()
	p, err := parsers.ByName(k.LogParser)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(k.TimeoutSeconds)*time.Second)
	defer cancel()
	o := outcome{tests: map[string]string{}}
	for i, command := range k.TestCmds {
		report := filepath.Join(t.TempDir(), "report")
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		cmd.Dir, cmd.Env = dir, environ(t.TempDir())
		for name, value := range p.Env(report) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
			t.Fatalf("%s: %v, %v\n%s", command, err, ctx.Err(), out)
		}
		run := parsers.Run{Number: i + 1, Command: command, Output: out, ExitCode: cmd.ProcessState.ExitCode()}
		if b, err := os.ReadFile(report); err == nil {
			run.Report = b
		}
		r := p.Parse(run)
		for name, status := range r.Tests {
			o.tests[name] = parsers.Worse(o.tests[name], status)
		}
		o.doubts = append(o.doubts, r.Doubts...)
		if r.Broken != "" {
			o.doubts = append(o.doubts, r.Broken)
		}
		o.log += "$ " + command + "\n" + string(out)
	}
	return o
}

// The real fix solves a task, every time; nothing, a comment and a plausible mistake do
// not, and break nothing either. Of each language one task is tried in full, and all of them
// where there is time: test/e2e grades the same patches in sandboxes.
func TestSolutions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range load(t) {
		full := !seen[k.Language] || os.Getenv("ORCHARD_SOAK") == "1"
		seen[k.Language] = true
		t.Run(k.InstanceID, func(t *testing.T) {
			t.Parallel()
			needToolchain(t, k.Language)
			repo := importRepo(t, k)
			grade := func(patch string) outcome { return runTests(t, k, checkout(t, repo, k, patch, k.TestPatch)) }

			before := grade("")
			if passing := len(k.FailToPass) - len(before.failing(k.FailToPass)); passing > 0 {
				t.Errorf("%d of FAIL_TO_PASS pass without a fix\n%s", passing, before.log)
			}
			if failed := before.failing(k.PassToPass); failed != nil {
				t.Errorf("of PASS_TO_PASS fail without a fix: %q\n%s", failed, before.log)
			}

			var first outcome
			runs := 1
			if full {
				runs = 3
			}
			for i := range runs {
				o := grade(k.Patch)
				if i == 0 {
					first = o
				}
				if d := cmp.Diff(first.tests, o.tests); d != "" {
					t.Errorf("run %d differs from the first:\n%s", i+1, d)
				}
				if failed := append(o.failing(k.FailToPass), o.failing(k.PassToPass)...); failed != nil || o.doubts != nil {
					t.Fatalf("fail with the fix: %q, doubts %q\n%s", failed, o.doubts, o.log)
				}
			}
			if !full {
				return
			}

			comment := grade(string(read(t, k.variant("comment"))))
			if d := cmp.Diff(before.tests, comment.tests); d != "" {
				t.Errorf("a comment makes a difference:\n%s", d)
			}

			wrong := grade(string(read(t, k.variant("wrong"))))
			if wrong.failing(k.FailToPass) == nil {
				t.Error("the wrong patch solves the task")
			}
			if failed := wrong.failing(k.PassToPass); failed != nil {
				t.Errorf("of PASS_TO_PASS fail with the wrong patch: %q\n%s", failed, wrong.log)
			}
		})
	}
}

// A repository's own tests pass at the base commit: its bug is one that nobody noticed.
func TestBasePassesItsOwnTests(t *testing.T) {
	t.Parallel()
	for _, k := range load(t) {
		if k.LogParser == "exit-code" {
			continue // its commands stand for tests, some of which come with the test patch
		}
		t.Run(k.InstanceID, func(t *testing.T) {
			t.Parallel()
			needToolchain(t, k.Language)
			o := runTests(t, k, checkout(t, importRepo(t, k), k))
			if len(o.tests) == 0 || o.doubts != nil {
				t.Errorf("%d tests, doubts %q\n%s", len(o.tests), o.doubts, o.log)
			}
			for name, status := range o.tests {
				if status != record.TestPassed {
					t.Errorf("%s: %s", name, status)
				}
			}
		})
	}
}
