package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/bar"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/internal/whole"
)

// Command is `orchard simulate` with what can be simulated.
func Command(d runner.Deps) *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "try a way of sampling on made-up outcomes",
		OnUsageError: runner.UsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("simulate: nothing to simulate is called %q; there is: orchard simulate bar", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: []*cli.Command{barCommand(d)},
	}
}

func barCommand(d runner.Deps) *cli.Command {
	def := Defaults()
	env := func(name string) []string {
		return []string{"ORCHARD_SIMULATE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	}
	text := func(name, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: env(name), Value: value, Usage: usage}
	}
	number := func(name string, value int, usage string) cli.Flag {
		return &cli.IntFlag{Name: name, EnvVars: env(name), Value: value, Usage: usage}
	}
	truth := func(name, usage string) cli.Flag { return &cli.BoolFlag{Name: name, EnvVars: env(name), Usage: usage} }
	// What the preset sets has no default of its own.
	preset := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: env(name), Usage: usage + " (default: the preset's)"}
	}
	return &cli.Command{
		Name: "bar", Usage: "compare BAR with groups of fixed size and with DAPO's dynamic sampling",
		Description: "Draws prompts of the given pass rates and the outcomes of their rollouts, and shows what each way\n" +
			"of choosing groups makes of them: rollouts a usable group, share of prompts that give one, and what\n" +
			"there is to learn from it. Example: orchard simulate bar --rates beta:0.5,2 --infra 5% --svg bar.svg\n\n" + exit.Help,
		OnUsageError: runner.UsageError,
		Flags: []cli.Flag{
			text("rates", "", "pass rates of the prompts: a `LIST` such as 0.1,0.2, or beta:A,B, or a file with one a line"),
			number("prompts", def.Prompts, "`NUMBER` of prompts to draw"),
			&cli.Int64Flag{Name: "seed", EnvVars: []string{"ORCHARD_SEED"}, Usage: "`NUMBER` that all randomness is drawn from"},
			text("strategies", "", "`NAMES` with commas: fixed, dapo, bar:STRIDE (default: these, with strides 16, 8, 4 and 2)"),
			text("preset", bar.PresetOrchard, "values of n, n-max, rho and of what follows: `NAME` of "+strings.Join(bar.Presets(), ", ")),
			preset("n", "`NUMBER` of samples in a group"),
			preset("n-max", "most samples of a prompt: a `NUMBER`"),
			preset("rho", "`LO,HI`: shares of positives of a strict group"),
			preset("target", "`SHARE` of positives that is sought first; without one the middle of rho"),
			preset("truncated-usable", "`true` or false: train on a truncated rollout that has a reward"),
			truth("half-up", "round a target of x.5 positives up, not to the even number"),
			truth("more-positives", "of two numbers of positives as near to the target take the larger"),
			text("infra", "0", "`SHARE` of rollouts that end without a reward, such as 5%"),
			text("truncated", "0", "`SHARE` of the other rollouts that are cut, though their reward is known"),
			number("batch", def.Refill.Want, "`NUMBER` of groups in a batch"),
			number("start", 0, "`NUMBER` of prompts that a batch's first round starts: above --batch is over-sampling (default: --batch)"),
			truth("whole-rounds", "start as many prompts in later rounds, as verl's DAPO does, not only for the groups that lack"),
			number("rounds", def.Refill.Rounds, "most rounds of a batch: a `NUMBER`, 0 without limit; fixed has one"),
			number("ddof", def.Advantage.DDof, "what is taken off n in the standard deviation of advantages: `0 or 1`"),
			truth("json", "print JSON in place of the table"),
			text("csv", "", "`FILE` that gets the figures, a line a strategy and pass rate"),
			text("svg", "", "`FILE` that gets a picture"),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("simulate bar: unexpected argument %q; pass rates are given with --rates", c.Args().First())
			}
			config, err := parse(c)
			if err != nil {
				return exit.With(exit.Config, err)
			}
			return Run(c.Context, config, d)
		},
	}
}

// parse reads the flags.
func parse(c *cli.Context) (Config, error) {
	config := Defaults()
	var err error
	if config.BAR, err = bar.Preset(c.String("preset")); err != nil {
		return config, fmt.Errorf("--%w", err)
	}
	for name, to := range map[string]*int{"n": &config.BAR.N, "n-max": &config.BAR.NMax} {
		if s := c.String(name); s != "" {
			if *to, err = strconv.Atoi(s); err != nil {
				return config, fmt.Errorf("--%s: %q is not a whole number", name, s)
			}
		}
	}
	if s := c.String("rho"); s != "" {
		lo, hi, ok := strings.Cut(s, ",")
		l, err1 := share(lo)
		h, err2 := share(hi)
		if !ok || err1 != nil || err2 != nil {
			return config, fmt.Errorf("--rho: %q must be two shares, such as 0.375,0.625", s)
		}
		config.BAR.Lo, config.BAR.Hi = l, h
	}
	if s := c.String("target"); s != "" {
		t, err := share(s)
		if err != nil {
			return config, fmt.Errorf("--target: %w", err)
		}
		config.BAR.Target = &t
	}
	if s := c.String("truncated-usable"); s != "" {
		if config.BAR.TruncatedUsable, err = strconv.ParseBool(s); err != nil {
			return config, fmt.Errorf("--truncated-usable: %q must be true or false", s)
		}
	}
	for name, to := range map[string]*runner.Share{"infra": &config.Infra, "truncated": &config.Truncated} {
		if *to, err = runner.ParseShare(c.String(name)); err != nil {
			return config, fmt.Errorf("--%s: %w", name, err)
		}
	}
	config.Rates, config.Prompts, config.Seed, config.Strategies = c.String("rates"), c.Int("prompts"), c.Int64("seed"), c.String("strategies")
	config.BAR.HalfUp, config.BAR.MorePositives = c.Bool("half-up"), c.Bool("more-positives")
	config.Refill = bar.Refill{Want: c.Int("batch"), Start: cmp.Or(c.Int("start"), c.Int("batch")), Rounds: c.Int("rounds"), Whole: c.Bool("whole-rounds")}
	config.Advantage.DDof = c.Int("ddof")
	config.JSON, config.CSV, config.SVG = c.Bool("json"), c.String("csv"), c.String("svg")
	return config, nil
}

func share(s string) (float64, error) {
	f, err := runner.ParseShare(s)
	return float64(f), err
}

// Run simulates, prints to d.Stdout and writes the files.
func Run(ctx context.Context, c Config, d runner.Deps) error {
	if err := c.Validate(); err != nil {
		return err
	}
	rates, err := readRates(c)
	if err != nil {
		return err
	}
	r, err := Simulate(ctx, c, rates)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		flag, path string
		content    func() []byte
	}{{"csv", c.CSV, r.csv}, {"svg", c.SVG, r.svg}} {
		if f.path == "" {
			continue
		}
		if err := whole.WriteBytes(f.path, 0o644, f.content()); err != nil {
			return exit.Configf("--%s %s: %w", f.flag, f.path, err)
		}
	}
	out := r.table()
	if c.JSON {
		if out, err = json.MarshalIndent(r, "", "  "); err != nil {
			return err
		}
		out = append(out, '\n')
	}
	if _, err := d.WithDefaults().Stdout.Write(out); err != nil {
		return fmt.Errorf("print the simulation: %w", err)
	}
	return nil
}
