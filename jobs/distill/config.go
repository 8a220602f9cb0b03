// Package distill is the stage that makes training data from a teacher: n rollouts of
// every task, each played in its own sandbox and graded in another.
//
// It reads a task dataset and writes a rollout dataset, one row a rollout, in the order
// of the tasks. A rollout whose worth could not be found out is no row: it is tried
// again, and a version with too many of those is not committed. A task whose own gold
// patch is not resolved costs no model call: its rollouts are rows with task_invalid.
package distill

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/llmflags"
	"orchard/internal/runner"
)

// Version goes up whenever the rows for the same inputs and answers change.
const Version = 1

// Config is the stage's settings.
type Config struct {
	runner.Config
	LLM llm.Options

	Rollouts   int
	Harness    string
	PromptFile string

	Steps          int
	CommandTimeout time.Duration
	Wall           time.Duration
	Tokens         int64
	Stuck          int

	Temperature, TopP float64 // negative: not sent
	MaxTokens         int
	TokenIDs          bool

	DefaultImage string
	CPU, Memory  string
	TestTimeout  time.Duration
	Canary       bool
	SandboxURL   string
	SandboxKey   llm.Secret
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{
		Config: runner.Default(), Rollouts: 4, Harness: "mini-swe-v2",
		Steps: 100, CommandTimeout: time.Minute, Wall: time.Hour,
		Temperature: -1, TopP: -1, DefaultImage: "host", CPU: "1", Memory: "2Gi",
		TestTimeout: 30 * time.Minute, Canary: true,
	}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const rolling, sandboxes = "ROLLOUTS", "SANDBOXES"
	flags := append(runner.Flags(&c.Config), llmflags.Flags(&c.LLM)...)
	return append(flags,
		&cli.IntFlag{Name: "rollouts", Aliases: []string{"n"}, Category: rolling, EnvVars: []string{"ORCHARD_ROLLOUTS"}, Destination: &c.Rollouts, Value: c.Rollouts, Usage: "`NUMBER` of rollouts a task"},
		&cli.StringFlag{Name: "harness", Category: rolling, EnvVars: []string{"ORCHARD_HARNESS"}, Destination: &c.Harness, Value: c.Harness, Usage: "agent loop: " + strings.Join(harness.Names(), ", ")},
		&cli.StringFlag{Name: "prompt-file", Category: rolling, EnvVars: []string{"ORCHARD_PROMPT_FILE"}, Destination: &c.PromptFile, Usage: "`FILE` with prompts of your own instead of the harness's"},
		&cli.IntFlag{Name: "step-limit", Category: rolling, EnvVars: []string{"ORCHARD_STEP_LIMIT"}, Destination: &c.Steps, Value: c.Steps, Usage: "model calls a rollout at most"},
		&cli.DurationFlag{Name: "command-timeout", Category: rolling, EnvVars: []string{"ORCHARD_COMMAND_TIMEOUT"}, Destination: &c.CommandTimeout, Value: c.CommandTimeout, Usage: "`TIME` that one command may take"},
		&cli.DurationFlag{Name: "rollout-timeout", Category: rolling, EnvVars: []string{"ORCHARD_ROLLOUT_TIMEOUT"}, Destination: &c.Wall, Value: c.Wall, Usage: "`TIME` that one rollout may take before grading"},
		&cli.Int64Flag{Name: "rollout-tokens", Category: rolling, EnvVars: []string{"ORCHARD_ROLLOUT_TOKENS"}, Destination: &c.Tokens, Value: c.Tokens, Usage: "prompt and completion tokens a rollout at most, as the server counts; 0 is no limit"},
		&cli.IntFlag{Name: "stuck-limit", Category: rolling, EnvVars: []string{"ORCHARD_STUCK_LIMIT"}, Destination: &c.Stuck, Value: c.Stuck, Usage: "end a rollout that does and sees the same so often in a row; 0 is never"},
		&cli.Float64Flag{Name: "temperature", Category: rolling, EnvVars: []string{"ORCHARD_TEMPERATURE"}, Destination: &c.Temperature, Value: c.Temperature, Usage: "sampling temperature; negative leaves it to the server"},
		&cli.Float64Flag{Name: "top-p", Category: rolling, EnvVars: []string{"ORCHARD_TOP_P"}, Destination: &c.TopP, Value: c.TopP, Usage: "nucleus sampling; negative leaves it to the server"},
		&cli.IntFlag{Name: "max-tokens", Category: rolling, EnvVars: []string{"ORCHARD_MAX_TOKENS"}, Destination: &c.MaxTokens, Value: c.MaxTokens, Usage: "tokens of one answer at most; 0 leaves it to the server"},
		&cli.BoolFlag{Name: "token-ids", Category: rolling, EnvVars: []string{"ORCHARD_TOKEN_IDS"}, Destination: &c.TokenIDs, Usage: "ask the server for token ids and log-probabilities"},
		&cli.BoolFlag{Name: "canary", Category: rolling, EnvVars: []string{"ORCHARD_CANARY"}, Destination: &c.Canary, Value: c.Canary, Usage: "grade each task's gold patch before its first rollout"},

		&cli.StringFlag{Name: "default-image", Category: sandboxes, EnvVars: []string{"ORCHARD_DEFAULT_IMAGE"}, Destination: &c.DefaultImage, Value: c.DefaultImage, Usage: "`IMAGE` of tasks that name none"},
		&cli.StringFlag{Name: "sandbox-cpu", Category: sandboxes, EnvVars: []string{"ORCHARD_SANDBOX_CPU"}, Destination: &c.CPU, Value: c.CPU, Usage: "`CPUS` of a sandbox"},
		&cli.StringFlag{Name: "sandbox-memory", Category: sandboxes, EnvVars: []string{"ORCHARD_SANDBOX_MEMORY"}, Destination: &c.Memory, Value: c.Memory, Usage: "`BYTES` of a sandbox, such as 2Gi"},
		&cli.DurationFlag{Name: "test-timeout", Category: sandboxes, EnvVars: []string{"ORCHARD_TEST_TIMEOUT"}, Destination: &c.TestTimeout, Value: c.TestTimeout, Usage: "`TIME` that a task's tests may take when the task does not say"},
		&cli.StringFlag{Name: "sandbox-url", Category: sandboxes, EnvVars: []string{"SANDBOX_BASE_URL"}, Destination: &c.SandboxURL, Usage: "`URL` of the sandbox service; its key comes from SANDBOX_API_KEY"},
	)
}

// asks reports whether model and sandboxes are needed.
func (c Config) asks() bool {
	return !c.DryRun && (c.Mode == runner.ModeRun || c.Mode == runner.ModeCheck)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.asks() {
		errs = append(errs, c.LLM.Validate())
		if c.SandboxURL == "" {
			bad("--sandbox-url (SANDBOX_BASE_URL): missing; `orchard-controller --runtime=local` is a sandbox service, and `orchard run` starts one by itself")
		}
	}
	if c.Rollouts < 1 || c.Rollouts > 10000 {
		bad("--rollouts: %d must be 1 to 10000", c.Rollouts)
	}
	if _, err := harness.New(c.Harness, harness.Options{PromptFile: c.PromptFile}); err != nil {
		errs = append(errs, err) // it names the flag
	}
	if c.Steps < 1 {
		bad("--step-limit: %d must be at least 1", c.Steps)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"--command-timeout", c.CommandTimeout}, {"--rollout-timeout", c.Wall}, {"--test-timeout", c.TestTimeout}} {
		if d.value <= 0 {
			bad("%s: %v must be positive", d.flag, d.value)
		}
	}
	if c.Tokens < 0 || c.Stuck < 0 || c.MaxTokens < 0 {
		bad("--rollout-tokens, --stuck-limit, --max-tokens: must not be negative")
	}
	if c.TopP > 1 {
		bad("--top-p: %v must be at most 1", c.TopP)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}
