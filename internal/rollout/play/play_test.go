package play

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// The settings are part of the keys of every stage that rolls out: what changes here makes
// all of their finished work be done again.
func TestSettings(t *testing.T) {
	t.Parallel()
	o := Defaults()
	o.LLM.Model, o.Temperature, o.PromptFile = "m", .5, filepath.Join(t.TempDir(), "prompts")
	if err := os.WriteFile(o.PromptFile, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := o.Settings()
	if err != nil {
		t.Fatal(err)
	}
	got, err := seal.Canonical(struct {
		Settings
		Rollouts int `json:"rollouts"`
	}{s, 4})
	want := `{"canary":true,"command_timeout_ms":60000,"default_image":"host","grader":"` + s.Grader + `","harness":"mini-swe-v2","max_tokens":0,"policy":"m",` +
		`"prompts":"` + seal.Bytes([]byte("x")) + `","rollout_timeout_ms":3600000,"rollout_tokens":0,"rollouts":4,"step_limit":100,"stuck_limit":0,"temperature":0.5,` +
		`"test_timeout_ms":1800000,"token_ids":false,"top_p":null}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	o.Policy = "night"
	if s, _ := o.Settings(); s.Policy != "night" {
		t.Errorf("policy %q", s.Policy)
	}
	o.PromptFile = "absent"
	if _, err := o.Settings(); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--prompt-file") {
		t.Errorf("%v", err)
	}
}

// What is wrong is named by its flag; model and sandboxes are asked for only where they
// are used.
func TestValidate(t *testing.T) {
	t.Parallel()
	run := runner.Default()
	o := Defaults()
	err := o.Validate(run)
	if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--llm-url") || !strings.Contains(err.Error(), "--sandbox-url") {
		t.Errorf("%v", err)
	}
	for _, mode := range []runner.Mode{runner.ModePlan, runner.ModeCommit} {
		run.Mode = mode
		if err := o.Validate(run); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if p, check, err := o.Player(run, time.Now); err != nil || check != nil || p.Sandboxes != nil || p.ID("t", 0) == "" {
			t.Errorf("%s: %v", mode, err)
		}
	}
	o.Harness, o.Steps, o.CommandTimeout, o.TestTimeout, o.Tokens, o.TopP = "none", 0, 0, -1, -1, 2
	err = o.Validate(run)
	for _, flag := range []string{"harness", "--step-limit", "--command-timeout", "--test-timeout", "--rollout-tokens", "--top-p"} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not named: %v", flag, err)
		}
	}
}

// What the service would refuse of every task is found before the first.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cpu, request, memory string
		says                 []string // nil: fine
	}{
		{"2", "100m", "2Gi", nil}, {"2", "2", "2Gi", nil}, {"", "", "", nil}, {"", "500m", "1G", nil},
		{"1", "1500m", "2Gi", []string{"--sandbox-cpu-request: 1500m is more than --sandbox-cpu, 1"}},
		{"one", "none", "2 Gi", []string{`--sandbox-cpu: "one"`, `--sandbox-cpu-request: "none"`, `--sandbox-memory: "2 Gi"`, "such as 2, 500m or 16Gi"}},
		{"0", "", "2Gi", []string{"--sandbox-cpu: ", "above zero"}},
	} {
		b := DefaultBoxes()
		b.SandboxURL, b.CPU, b.CPURequest, b.Memory = "http://sandboxes.invalid", c.cpu, c.request, c.memory
		err := b.Validate(runner.Default())
		if c.says == nil && err != nil || c.says != nil && exit.Code(err) != exit.Config {
			t.Errorf("%+v: %v", c, err)
		}
		for _, say := range c.says {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%+v: %v, want %q", c, err, say)
			}
		}
	}
}

// Not parallel: it sets the environment.
func TestFlags(t *testing.T) {
	t.Setenv("SANDBOX_API_KEY", "from-the-environment")
	t.Setenv("ORCHARD_STEP_LIMIT", "7")
	o := Defaults()
	var help strings.Builder
	app := func() *cli.App {
		return &cli.App{Name: "x", Writer: &help, ErrWriter: io.Discard, Flags: Flags(&o), Action: func(*cli.Context) error { return nil }}
	}
	if err := app().Run([]string{"x", "--harness", "h", "--sandbox-cpu", "3", "--sandbox-cpu-request", "200m", "--canary=false"}); err != nil {
		t.Fatal(err)
	}
	if o.SandboxKey != "from-the-environment" || o.Steps != 7 || o.Harness != "h" || o.CPU != "3" || o.spec("r", 0).Reserve != (sandbox.Reserve{CPU: "200m"}) || o.Canary || o.Memory != "2Gi" {
		t.Errorf("%+v", o)
	}
	if err := app().Run([]string{"x", "--help"}); err != nil || strings.Contains(help.String(), "from-the-env") || strings.Count(help.String(), "--harness") != 1 {
		t.Errorf("%v\n%s", err, help.String())
	}
}
