// Package credit is the stage that says which steps of a failed trajectory are worth
// training: those that brought it nearer to a solution before it was lost.
//
// It reads rollout datasets and writes a row of kind credit for every rollout with a
// reward. A resolved one is trained whole and nothing is asked about it. Of the others the
// trajectory's own teacher, told how it ended, says how likely success was at a few key
// steps; or, without any model, the tests say it of the diff after every step. An answer
// that breaks a rule is asked for again, and a trajectory without a good one is dropped
// from training, never trained whole. A teacher that is down is trouble of ours: the unit
// stays unfinished. A rollout without a reward is left out and counted.
package credit

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/llm"
	"orchard/internal/llm/llmflags"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/jobs/credit/annotate"
	"orchard/jobs/credit/curve"
)

// Version goes up whenever the rows or files for the same inputs and answers change.
const Version = 1

// What --resolved takes.
const (
	ResolvedWhole = "whole" // a row that says to train all steps
	ResolvedDrop  = "drop"  // no row
)

// Config is the stage's settings.
type Config struct {
	runner.Config
	Method   string // record.CreditTeacher or record.CreditExecution
	Resolved string
	Compare  string // URI of a credit dataset, "" for none
	Curve    curve.Options

	LLM         llm.Options
	AnyPolicy   bool
	ReAsks      int
	Temperature float64 // negative: not sent
	MaxTokens   int     // of an answer; 0: not sent
	Limits      annotate.Limits

	Tasks string // URI of the task dataset, for execution
	Boxes play.Boxes
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{
		Config: runner.Default(), Method: record.CreditTeacher, Resolved: ResolvedWhole, Curve: curve.Defaults(),
		ReAsks: 2, Temperature: -1, Limits: annotate.DefaultLimits(), Boxes: play.DefaultBoxes(),
	}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const values, segments, asking = "VALUES", "SEGMENTS", "ASKING"
	text := func(category, name, env, usage string, to *string) cli.Flag {
		return &cli.StringFlag{Name: name, Category: category, EnvVars: []string{"ORCHARD_CREDIT_" + env}, Usage: usage, Destination: to, Value: *to}
	}
	count := func(category, name, env, usage string, to *int) cli.Flag {
		return &cli.IntFlag{Name: name, Category: category, EnvVars: []string{"ORCHARD_CREDIT_" + env}, Usage: usage, Destination: to, Value: *to}
	}
	yes := func(category, name, env, usage string, to *bool) cli.Flag {
		return &cli.BoolFlag{Name: name, Category: category, EnvVars: []string{"ORCHARD_CREDIT_" + env}, Usage: usage, Destination: to, Value: *to}
	}
	flags := append(runner.Flags(&c.Config),
		text(values, "method", "METHOD", "who says how likely success was: teacher (the model that rolled out), or execution (the tests, on the diff after each step)", &c.Method),
		text(values, "tasks", "TASKS", "`URI` of the rollouts' task dataset, for --method execution", &c.Tasks),
		text(values, "compare", "COMPARE", "`URI` of a credit dataset, such as of the other method, that calibration.md compares with", &c.Compare),
		text(values, "resolved", "RESOLVED", "resolved rollouts: whole (a row that trains all steps) or drop", &c.Resolved),
		text(values, "probability", "PROBABILITY", "a key step's probability is that before the step was taken, or after", (*string)(&c.Curve.When)),

		text(segments, "rise", "RISE", "what rises: step (each by --epsilon), interval (all steps between two key steps that differ by it), interval-mean (by it for each step between them)", (*string)(&c.Curve.Rise)),
		&cli.Float64Flag{Name: "epsilon", Category: segments, EnvVars: []string{"ORCHARD_CREDIT_EPSILON"}, Destination: &c.Curve.Epsilon, Value: c.Curve.Epsilon, Usage: "least credit of a step that rises"},
		yes(segments, "train-last", "TRAIN_LAST", "train the step at the end of a rise too", &c.Curve.Last),
		count(segments, "gap", "GAP", "join rises with at most so many steps between them", &c.Curve.Gap),
		count(segments, "pad", "PAD", "add so many steps on both sides of what was joined", &c.Curve.Pad),

		count(asking, "re-asks", "RE_ASKS", "how often a teacher whose answer breaks a rule is asked again", &c.ReAsks),
		yes(asking, "any-policy", "ANY_POLICY", "ask --llm-model about the rollouts of other policies too", &c.AnyPolicy),
		&cli.Float64Flag{Name: "temperature", Category: asking, EnvVars: []string{"ORCHARD_CREDIT_TEMPERATURE"}, Destination: &c.Temperature, Value: c.Temperature, Usage: "sampling temperature; negative leaves it to the server"},
		count(asking, "max-tokens", "MAX_TOKENS", "tokens of one answer at most; 0 leaves it to the server", &c.MaxTokens),
		count(asking, "total-chars", "TOTAL_CHARS", "most characters of a question; in a longer one each text is cut to what the other -chars flags say", &c.Limits.Total),
		count(asking, "task-chars", "TASK_CHARS", "characters of the task, in a question that is too long", &c.Limits.Task),
		count(asking, "observation-chars", "OBSERVATION_CHARS", "characters of what an action printed, in a question that is too long", &c.Limits.Observation),
		count(asking, "reasoning-chars", "REASONING_CHARS", "characters of what the policy said in a step, in a question that is too long", &c.Limits.Reasoning),
		count(asking, "command-chars", "COMMAND_CHARS", "characters of a command, in a question that is too long", &c.Limits.Command),
	)
	return append(append(flags, llmflags.Flags(&c.LLM)...), play.BoxFlags(&c.Boxes)...)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Curve.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch c.Method {
	case record.CreditTeacher:
		errs = append(errs, c.Limits.Validate())
		if play.Asks(c.Config) {
			errs = append(errs, c.LLM.Validate())
		}
		if c.Tasks != "" {
			bad("--tasks: only goes with --method execution")
		}
	case record.CreditExecution:
		errs = append(errs, c.Boxes.Validate(c.Config))
		if c.Tasks == "" && c.Mode != runner.ModeCheck {
			bad("--tasks: missing; --method execution grades diffs by the tests of the task dataset")
		}
	default:
		bad("--method: %q is neither teacher nor execution", c.Method)
	}
	if c.Resolved != ResolvedWhole && c.Resolved != ResolvedDrop {
		bad("--resolved: %q is neither whole nor drop", c.Resolved)
	}
	if c.ReAsks < 0 || c.ReAsks > 20 {
		bad("--re-asks: %d must be 0 to 20", c.ReAsks)
	}
	if c.MaxTokens < 0 {
		bad("--max-tokens: %d must not be negative", c.MaxTokens)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// settings is what decides the rows beside the inputs and the teacher's answers.
type settings struct {
	Method      string  `json:"method"`
	Resolved    string  `json:"resolved"`
	Epsilon     float64 `json:"epsilon"`
	Probability string  `json:"probability"`
	Rise        string  `json:"rise"`
	Last        bool    `json:"train_last"`
	Gap         int     `json:"gap"`
	Pad         int     `json:"pad"`

	Teacher   *teacherSettings   `json:"teacher"`
	Execution *executionSettings `json:"execution"`
}

type teacherSettings struct {
	Annotator   string   `json:"annotator"`
	AnyPolicy   bool     `json:"any_policy"`
	Template    string   `json:"template_id"`
	ReAsks      int      `json:"re_asks"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   int      `json:"max_tokens"`
	Total       int      `json:"total_chars"`
	Task        int      `json:"task_chars"`
	Observation int      `json:"observation_chars"`
	Reasoning   int      `json:"reasoning_chars"`
	Command     int      `json:"command_chars"`
}

type executionSettings struct {
	Grader string `json:"grader"`
	Image  string `json:"default_image"`
	TestMS int64  `json:"test_timeout_ms"`
}

func (c Config) settings() settings {
	o, l := c.Curve, c.Limits
	s := settings{Method: c.Method, Resolved: c.Resolved, Epsilon: o.Epsilon, Probability: string(o.When), Rise: string(o.Rise), Last: o.Last, Gap: o.Gap, Pad: o.Pad}
	if c.Method == record.CreditExecution {
		s.Execution = &executionSettings{grade.Version, c.Boxes.DefaultImage, c.Boxes.TestTimeout.Milliseconds()}
		return s
	}
	s.Teacher = &teacherSettings{c.LLM.Model, c.AnyPolicy, annotate.TemplateID(o.When), c.ReAsks, c.temperature(), c.MaxTokens,
		l.Total, l.Task, l.Observation, l.Reasoning, l.Command}
	return s
}

// temperature is nil when the server decides.
func (c Config) temperature() *float64 {
	if c.Temperature < 0 {
		return nil
	}
	return &c.Temperature
}
