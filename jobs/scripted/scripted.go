// Package scripted is `orchard llm scripted`: the policy that needs no model, as a
// server of its own, for demos, tests and load.
package scripted

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/llm/scripted"
	"orchard/internal/runner"
	"orchard/internal/serve"
)

// Command is `orchard llm scripted`.
func Command(open datasets.Opener) *cli.Command {
	d := scripted.Defaults()
	return &cli.Command{
		Name:  "scripted",
		Usage: "serve a policy without a model, which knows the tasks' answers",
		Description: "Serves the OpenAI chat completions protocol. Each rollout is drawn by its request's seed to be\n" +
			"solved, or to end in one of the ways that models end. Everything it makes is marked policy:\n" +
			"scripted, and is for demos, tests and load.\n\n" + exit.Help,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tasks", Required: true, EnvVars: []string{"ORCHARD_SCRIPTED_TASKS"}, Usage: "`URI` of the task dataset to play"},
			&cli.BoolFlag{Name: "follow", EnvVars: []string{"ORCHARD_SCRIPTED_FOLLOW"}, Usage: "play the newest version there is at each time; there need be none yet"},
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8010", EnvVars: []string{"ORCHARD_SCRIPTED_LISTEN"}, Usage: "`ADDRESS` to serve on"},
			&cli.Float64Flag{Name: "solve-rate", Value: d.SolveRate, EnvVars: []string{"ORCHARD_SCRIPTED_SOLVE_RATE"}, Usage: "`PROBABILITY` that a rollout hands in the gold patch"},
			&cli.Float64Flag{Name: "throttle", EnvVars: []string{"ORCHARD_SCRIPTED_THROTTLE"}, Usage: "`SHARE` of requests answered 429, to try a client's patience"},
			&cli.StringFlag{Name: "request-log", EnvVars: []string{"ORCHARD_SCRIPTED_REQUEST_LOG"}, Usage: "`FILE` to append every request to, as JSON lines"},
		},
		OnUsageError: runner.UsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("llm scripted: unexpected argument %q; tasks are given with --tasks", c.Args().First())
			}
			d.SolveRate, d.Throttle = c.Float64("solve-rate"), c.Float64("throttle")
			if path := c.String("request-log"); path != "" {
				log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
				if err != nil {
					return exit.Configf("--request-log: %w", err)
				}
				defer log.Close()
				d.Log = scripted.LogTo(log)
			}
			handler, what, err := serving(c, open, d)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", c.String("listen"))
			if err != nil {
				return exit.Configf("--listen: %w", err)
			}
			fmt.Fprintf(c.App.ErrWriter, "scripted policy for %s on http://%s/v1, model %q\n", what, l.Addr(), scripted.Model)
			return serve.Until(c.Context, l, &http.Server{Handler: handler}, 5*time.Second)
		},
	}
}

// serving is the policy that the flags ask for, and what it plays.
func serving(c *cli.Context, open datasets.Opener, d scripted.Options) (http.Handler, string, error) {
	uri := c.String("tasks")
	if c.Bool("follow") {
		return follow(open, uri, d), "the tasks of " + uri, nil
	}
	v, err := datasets.Open(c.Context, open, uri)
	if err != nil {
		return nil, "", err
	}
	tasks, err := load(c.Context, v)
	if err != nil {
		return nil, "", err
	}
	handler, err := scripted.New(tasks, d)
	return handler, fmt.Sprintf("%d tasks", len(tasks)), exit.With(exit.Config, err)
}
