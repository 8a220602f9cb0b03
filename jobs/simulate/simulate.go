// Package simulate is `orchard simulate bar`: what the ways of choosing groups would cost and
// give on tasks of given pass rates, before a single rollout is paid for.
//
// Outcomes are drawn; everything after that is the code that a run uses (internal/bar). All
// strategies see the same outcomes of the same prompts, so that they differ by what they do
// and not by luck. The same settings give the same bytes.
//
// It is not a stage: it reads and writes no dataset. It knows nothing of time, of how long
// responses are, or of how a policy changes while it learns.
package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"orchard/internal/bar"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

// Config is the settings of a simulation. Its JSON is part of what is written.
type Config struct {
	Rates      string        `json:"rates"`      // as given with --rates
	Prompts    int           `json:"prompts"`    // number of prompts that are drawn
	Seed       int64         `json:"seed"`       //
	Strategies string        `json:"strategies"` // names with commas; "" is all
	BAR        bar.Options   `json:"bar"`        // its stride is not used
	Infra      runner.Share  `json:"infra"`      // share of rollouts that end without a reward
	Truncated  runner.Share  `json:"truncated"`  // share of the others that are cut, their reward known
	Refill     bar.Refill    `json:"refill"`     // of DAPO's and BAR's batches
	Advantage  bar.Advantage `json:"advantage"`
	JSON       bool          `json:"-"` // to stdout, in place of the table
	CSV, SVG   string        `json:"-"` // files to write
}

// Defaults is the settings without flags.
func Defaults() Config {
	o, _ := bar.Preset(bar.PresetOrchard) // a name that is there
	return Config{Prompts: 20_000, BAR: o, Refill: bar.Refill{Want: 32, Start: 32, Rounds: 10}, Advantage: bar.DefaultAdvantage()}
}

// most is how many prompts, and samples of one, a simulation may have.
const (
	mostPrompts = 5_000_000
	mostSamples = 1024
)

// Validate says everything that is wrong with c, by its flags.
func (c Config) Validate() error {
	var errs []error
	if c.Rates == "" {
		errs = append(errs, errors.New("--rates: give pass rates, such as 0.1,0.2 or beta:0.5,2 or a file with one a line"))
	}
	if c.Prompts < 2 || c.Prompts > mostPrompts {
		errs = append(errs, fmt.Errorf("--prompts %d: must be from 2 to %d", c.Prompts, mostPrompts))
	}
	if c.BAR.NMax > mostSamples {
		errs = append(errs, fmt.Errorf("--n-max %d: must be at most %d", c.BAR.NMax, mostSamples))
	}
	flags := strings.NewReplacer("n_max ", "--n-max ", "n ", "--n ", "rho ", "--rho ", "target ", "--target ")
	for _, err := range split(c.BAR.Validate()) {
		errs = append(errs, errors.New(firstWord(flags, err.Error())))
	}
	flags = strings.NewReplacer("want ", "--batch ", "start ", "--start ", "rounds ", "--rounds ")
	for _, err := range split(c.Refill.Validate()) {
		errs = append(errs, errors.New(firstWord(flags, err.Error())))
	}
	if err := c.Advantage.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--%w", err))
	}
	if c.CSV != "" && c.CSV == c.SVG {
		errs = append(errs, fmt.Errorf("--csv and --svg: both are %s", c.CSV))
	}
	if len(errs) == 0 {
		_, err := c.strategies()
		errs = append(errs, err)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// split is the errors of a joined one.
func split(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return nil
}

// firstWord names the flag in place of the field that a message begins with.
func firstWord(flags *strings.Replacer, message string) string {
	name, rest, _ := strings.Cut(message, " ")
	return flags.Replace(name+" ") + rest
}

// planned is a strategy and how its batches are filled.
type planned struct {
	bar.Strategy
	refill bar.Refill
}

// strategies are those that c asks for.
func (c Config) strategies() ([]planned, error) {
	names := c.Strategies
	if names == "" {
		names = "fixed,dapo"
		for _, s := range []int{16, 8, 4, 2} {
			if s <= c.BAR.NMax {
				names += ",bar:" + strconv.Itoa(s)
			}
		}
	}
	var list []planned
	seen := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if seen[name] {
			return nil, fmt.Errorf("--strategies: %s is there twice", name)
		}
		seen[name] = true
		kind, stride, _ := strings.Cut(name, ":")
		switch {
		case name == "fixed":
			// A plain batch is what its prompts gave.
			list = append(list, planned{bar.FixedN{N: c.BAR.N, Reading: c.BAR.Reading}, bar.Refill{Want: c.Refill.Want, Start: c.Refill.Want, Rounds: 1}})
		case name == "dapo":
			list = append(list, planned{bar.DAPO{N: c.BAR.N, Reading: c.BAR.Reading}, c.Refill})
		case kind == "bar":
			o := c.BAR
			var err error
			if o.Stride, err = strconv.Atoi(stride); err != nil || o.Stride < 1 {
				return nil, fmt.Errorf("--strategies: %q: a stride is a number from 1, as in bar:4", name)
			}
			b, err := bar.New(o)
			if err != nil {
				return nil, err
			}
			list = append(list, planned{b, c.Refill})
		default:
			return nil, fmt.Errorf("--strategies: %q is none of fixed, dapo, bar:STRIDE", name)
		}
	}
	return list, nil
}
