// Package admit is the stage that finds out which tasks are fit to be used: each is graded
// with its gold patch and without any, several times, every time in a fresh sandbox.
//
// It reads a task dataset and writes a row for every task: admitted, or quarantined with a
// reason and the evidence. It changes no task; `orchard filter` joins the rows with them. A
// grading that we could not do is no evidence: it is tried again, and else the task stays
// without a row.
package admit

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// Version goes up whenever the rows for the same tasks and the same test results change.
const Version = 1

const maxRepeats = 1000

// Config is the stage's settings.
type Config struct {
	runner.Config
	play.Boxes

	Repeats   int
	Strict    bool
	HangFails bool
	AllRuns   bool
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Boxes: play.DefaultBoxes(), Repeats: 3}
}

// Flags are the flags that fill c.
func Flags(c *Config) []cli.Flag {
	const category = "ADMISSION"
	flags := append(runner.Flags(&c.Config),
		&cli.IntFlag{Name: "repeats", Category: category, EnvVars: []string{"ORCHARD_ADMIT_REPEATS"}, Destination: &c.Repeats, Value: c.Repeats, Usage: "`NUMBER` of gradings with the gold patch, and as many without"},
		&cli.BoolFlag{Name: "strict", Category: category, EnvVars: []string{"ORCHARD_ADMIT_STRICT"}, Destination: &c.Strict, Usage: "quarantine a task also when a test that it does not require is flaky"},
		&cli.BoolFlag{Name: "hang-fails", Category: category, EnvVars: []string{"ORCHARD_ADMIT_HANG_FAILS"}, Destination: &c.HangFails, Usage: "take tests that do not end without the patch for failing, as a bug that hangs makes them; else nobody knows"},
		&cli.BoolFlag{Name: "all-runs", Category: category, EnvVars: []string{"ORCHARD_ADMIT_ALL_RUNS"}, Destination: &c.AllRuns, Usage: "do all gradings of a task even when it can no longer be admitted"},
	)
	return append(flags, play.BoxFlags(&c.Boxes)...)
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Boxes.Validate(c.Config)}
	if c.Repeats < 1 || c.Repeats > maxRepeats {
		errs = append(errs, fmt.Errorf("--repeats: %d must be 1 to %d", c.Repeats, maxRepeats))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// settings is what decides the rows beside the tasks.
type settings struct {
	Repeats   int    `json:"repeats"`
	Strict    bool   `json:"strict"`
	HangFails bool   `json:"hang_fails"`
	AllRuns   bool   `json:"all_runs"`
	Image     string `json:"default_image"`
	limits
}

// limits is what a sandbox may take: of two runs with other limits neither stands for the other.
type limits struct {
	CPU    string `json:"sandbox_cpu"`
	Memory string `json:"sandbox_memory"`
	TestMS int64  `json:"test_timeout_ms"`
	Grader string `json:"grader"`
}

func (c Config) limits() limits {
	return limits{c.CPU, c.Memory, c.TestTimeout.Milliseconds(), grade.Version}
}

func (c Config) settings() settings {
	return settings{c.Repeats, c.Strict, c.HangFails, c.AllRuns, c.DefaultImage, c.limits()}
}
