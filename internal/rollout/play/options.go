package play

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/llm/llmflags"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// Options are the settings of a rollout and of the sandboxes that it and its grading run in.
type Options struct {
	LLM llm.Options
	// Policy is the policy's name in ids and rows, when the server knows the model by
	// another; "" is the model's.
	Policy string

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
	Canary            bool
	KeepDiffs         bool // the diff after each step, as blobs

	Boxes
}

// Defaults are the settings without any flag.
func Defaults() Options {
	return Options{
		Harness: "mini-swe-v2", Steps: 100, CommandTimeout: time.Minute, Wall: time.Hour,
		Temperature: -1, TopP: -1, Canary: true, Boxes: DefaultBoxes(),
	}
}

// Category is where the help lists what is about rollouts.
const Category = "ROLLOUTS"

// Flags are the flags that fill o. How often a task is rolled out is not among them.
func Flags(o *Options) []cli.Flag {
	flags := append(llmflags.Flags(&o.LLM),
		&cli.StringFlag{Name: "harness", Category: Category, EnvVars: []string{"ORCHARD_HARNESS"}, Destination: &o.Harness, Value: o.Harness, Usage: "agent loop: " + strings.Join(harness.Names(), ", ")},
	)
	return append(flags, SharedFlags(o)...)
}

// SharedFlags are Flags without --harness and without those of the model, for a stage that
// has several of them.
func SharedFlags(o *Options) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "prompt-file", Category: Category, EnvVars: []string{"ORCHARD_PROMPT_FILE"}, Destination: &o.PromptFile, Usage: "`FILE` with prompts of your own instead of the harness's"},
		&cli.IntFlag{Name: "step-limit", Category: Category, EnvVars: []string{"ORCHARD_STEP_LIMIT"}, Destination: &o.Steps, Value: o.Steps, Usage: "model calls a rollout at most"},
		&cli.DurationFlag{Name: "command-timeout", Category: Category, EnvVars: []string{"ORCHARD_COMMAND_TIMEOUT"}, Destination: &o.CommandTimeout, Value: o.CommandTimeout, Usage: "`TIME` that one command may take"},
		&cli.DurationFlag{Name: "rollout-timeout", Category: Category, EnvVars: []string{"ORCHARD_ROLLOUT_TIMEOUT"}, Destination: &o.Wall, Value: o.Wall, Usage: "`TIME` that one rollout may take before grading"},
		&cli.Int64Flag{Name: "rollout-tokens", Category: Category, EnvVars: []string{"ORCHARD_ROLLOUT_TOKENS"}, Destination: &o.Tokens, Value: o.Tokens, Usage: "prompt and completion tokens a rollout at most, as the server counts; 0 is no limit"},
		&cli.IntFlag{Name: "stuck-limit", Category: Category, EnvVars: []string{"ORCHARD_STUCK_LIMIT"}, Destination: &o.Stuck, Value: o.Stuck, Usage: "end a rollout that does and sees the same so often in a row; 0 is never"},
		&cli.Float64Flag{Name: "temperature", Category: Category, EnvVars: []string{"ORCHARD_TEMPERATURE"}, Destination: &o.Temperature, Value: o.Temperature, Usage: "sampling temperature; negative leaves it to the server"},
		&cli.Float64Flag{Name: "top-p", Category: Category, EnvVars: []string{"ORCHARD_TOP_P"}, Destination: &o.TopP, Value: o.TopP, Usage: "nucleus sampling; negative leaves it to the server"},
		&cli.IntFlag{Name: "max-tokens", Category: Category, EnvVars: []string{"ORCHARD_MAX_TOKENS"}, Destination: &o.MaxTokens, Value: o.MaxTokens, Usage: "tokens of one answer at most; 0 leaves it to the server"},
		&cli.BoolFlag{Name: "token-ids", Category: Category, EnvVars: []string{"ORCHARD_TOKEN_IDS"}, Destination: &o.TokenIDs, Usage: "ask the server for token ids and log-probabilities"},
		&cli.BoolFlag{Name: "canary", Category: Category, EnvVars: []string{"ORCHARD_CANARY"}, Destination: &o.Canary, Value: o.Canary, Usage: "grade each task's gold patch before its first rollout"},
	}, BoxFlags(&o.Boxes)...)
}

// Asks reports whether a stage that is run so needs model and sandboxes at all.
func Asks(run runner.Config) bool {
	return !run.DryRun && (run.Mode == runner.ModeRun || run.Mode == runner.ModeCheck)
}

// Validate says everything that is wrong, by the names of the flags. The settings of the
// model and the sandbox service count only where run asks them.
func (o Options) Validate(run runner.Config) error {
	var errs []error
	if Asks(run) {
		errs = append(errs, o.LLM.Validate())
	}
	return exit.With(exit.Config, errors.Join(append(errs, o.ValidateShared(run))...))
}

// ValidateShared is Validate without the model.
func (o Options) ValidateShared(run runner.Config) error {
	errs := []error{o.Boxes.Validate(run)}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := harness.New(o.Harness, harness.Options{PromptFile: o.PromptFile}); err != nil {
		errs = append(errs, err) // it names the flag
	}
	if o.Steps < 1 {
		bad("--step-limit: %d must be at least 1", o.Steps)
	}
	errs = append(errs, positive("--command-timeout", o.CommandTimeout), positive("--rollout-timeout", o.Wall))
	if o.Tokens < 0 || o.Stuck < 0 || o.MaxTokens < 0 {
		bad("--rollout-tokens, --stuck-limit, --max-tokens: must not be negative")
	}
	if o.TopP > 1 {
		bad("--top-p: %v must be at most 1", o.TopP)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: %v must be positive", flag, d)
	}
	return nil
}

// Settings is what decides a rollout beside its task, its index, the seed and the model's
// answers: what a stage embeds in the settings of its key.
type Settings struct {
	Policy      string   `json:"policy"`
	Model       string   `json:"model,omitempty"` // as the server calls it, when that is not the policy's name
	Harness     string   `json:"harness"`
	Prompts     string   `json:"prompts"` // sha256 of --prompt-file, "" without
	Steps       int      `json:"step_limit"`
	CommandMS   int64    `json:"command_timeout_ms"`
	WallMS      int64    `json:"rollout_timeout_ms"`
	Tokens      int64    `json:"rollout_tokens"`
	Stuck       int      `json:"stuck_limit"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	MaxTokens   int      `json:"max_tokens"`
	TokenIDs    bool     `json:"token_ids"`
	Image       string   `json:"default_image"`
	TestMS      int64    `json:"test_timeout_ms"`
	Canary      bool     `json:"canary"`
	Grader      string   `json:"grader"`
	KeepDiffs   bool     `json:"keep_diffs,omitempty"`
}

// Settings are the settings of o; it reads the prompt file.
func (o Options) Settings() (Settings, error) {
	s := Settings{
		Policy: o.policy(), Harness: o.Harness, Steps: o.Steps, CommandMS: o.CommandTimeout.Milliseconds(),
		WallMS: o.Wall.Milliseconds(), Tokens: o.Tokens, Stuck: o.Stuck, Temperature: sent(o.Temperature), TopP: sent(o.TopP),
		MaxTokens: o.MaxTokens, TokenIDs: o.TokenIDs, Image: o.DefaultImage, TestMS: o.TestTimeout.Milliseconds(),
		Canary: o.Canary, Grader: grade.Version, KeepDiffs: o.KeepDiffs,
	}
	if o.LLM.Model != s.Policy {
		s.Model = o.LLM.Model
	}
	if o.PromptFile != "" {
		b, err := os.ReadFile(o.PromptFile)
		if err != nil {
			return s, exit.Configf("--prompt-file: %w", err)
		}
		s.Prompts = seal.Bytes(b)
	}
	return s, nil
}

func (o Options) policy() string {
	if o.Policy != "" {
		return o.Policy
	}
	return o.LLM.Model
}

// sent is a sampling parameter, nil when the server decides.
func sent(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}
