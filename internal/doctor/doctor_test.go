package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
)

// run is "orchard doctor args" in this process.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &cli.App{Name: "orchard", Writer: &out, ErrWriter: &out, Commands: []*cli.Command{Command()}, ExitErrHandler: func(*cli.Context, error) {}}
	err := app.RunContext(t.Context(), append([]string{"orchard", "doctor"}, args...))
	return out.String(), err
}

func buildAgent(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orchard-agent")
	build := exec.Command("go", "build", "-o", path, "orchard/cmd/orchard-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func byName(findings []Finding) map[string]Finding {
	m := map[string]Finding{}
	for _, f := range findings {
		m[f.Name] = f
	}
	return m
}

func TestThisMachine(t *testing.T) {
	agent, state := buildAgent(t), t.TempDir()
	out, err := run(t, "--agent", agent, "--state-dir", state, "--json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var findings []Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatal(err)
	}
	got := byName(findings)
	for _, name := range []string{"kernel", "user namespace", "mount namespace", "seccomp", "git", "disk", "agent", "sandbox"} {
		if got[name].Status != OK {
			t.Errorf("%s: %+v", name, got[name])
		}
	}
	if !strings.Contains(got["sandbox"].Found, "limits") {
		t.Errorf("the trial says %q", got["sandbox"].Found)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("doctor left %v, %v", left, err)
	}
	text, err := run(t, "--agent", agent, "--state-dir", state)
	if err != nil || !strings.Contains(text, "ok    kernel") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestWhatIsMissing(t *testing.T) {
	agent := buildAgent(t)
	notProgram := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(notProgram, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, agent, path string
		finding, says     string
	}{
		{"no agent there", "/no/such/agent", os.Getenv("PATH"), "agent", "/no/such/agent"},
		{"no agent anywhere", "", t.TempDir(), "agent", "ORCHARD_AGENT"},
		{"an agent that does not run", notProgram, os.Getenv("PATH"), "agent", "permission denied"},
		{"no git", agent, t.TempDir(), "git", "not on PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			args := []string{"--state-dir", t.TempDir(), "--json"}
			if c.agent != "" {
				args = append(args, "--agent", c.agent)
			}
			out, err := run(t, args...)
			if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.finding) {
				t.Errorf("exit %d: %v", exit.Code(err), err)
			}
			var findings []Finding
			if err := json.Unmarshal([]byte(out), &findings); err != nil {
				t.Fatal(err)
			}
			f := byName(findings)[c.finding]
			if f.Status != Fail || !strings.Contains(f.Found, c.says) || f.Means == "" || f.Fix == "" {
				t.Errorf("%+v", f)
			}
			if _, tried := byName(findings)["sandbox"]; tried {
				t.Error("a sandbox was tried without its parts")
			}
		})
	}
}

func TestOptionalProgramsOnlyWarn(t *testing.T) {
	dir := t.TempDir()
	git := filepath.Join(dir, "git")
	if err := os.WriteFile(git, []byte("#!/bin/sh\necho git version 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	findings := programs(context.Background())
	if err := failed(findings); err != nil {
		t.Error(err)
	}
	if f := byName(findings)["go"]; f.Status != Warn || f.Fix == "" {
		t.Errorf("%+v", f)
	}
}

func TestBadArguments(t *testing.T) {
	if _, err := run(t, "extra"); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "extra") {
		t.Errorf("%v", err)
	}
}
