// Package notify is `orchard notify`: it tells a webhook how an evaluation ended, also when
// it failed, and is the last step of a nightly one.
//
// It reads the store as far as it answers and writes nothing to it. The webhook's address is
// a secret: it comes from the environment or a file, and is in no log and no error.
// Without one nothing is sent, and that is said.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/runner"
)

// variable is where the address of the webhook comes from.
const variable = "ORCHARD_WEBHOOK_URL"

// Config is the step's settings.
type Config struct {
	runner.Config
	Pipeline string
	Status   string        // of the workflow, such as Succeeded
	Duration time.Duration // of the workflow; 0 is not known
	Report   string        // URI of the dataset of reports; "" is none
	Alpha    float64

	Webhook llm.Secret // its address; "" sends nothing
	Retries int
	Pause   time.Duration // before the first retry, twice as long before each further one
}

// Defaults is the configuration without any flag.
func Defaults() Config {
	return Config{Config: runner.Default(), Alpha: .05, Retries: 5, Pause: time.Second}
}

// Command is `orchard notify`.
func Command(d runner.Deps) *cli.Command {
	c := Defaults()
	seconds, file := "", ""
	return &cli.Command{
		Name:  "notify",
		Usage: "tell a webhook how an evaluation ended",
		Description: runner.Describe("Looks for the evaluation of --run-id in the dataset of --in (<out>-evaluation of `orchard\n"+
			"evaluate`) and posts headline, interval, test and report as JSON, or that there is none. The same\n"+
			"is printed. --out is not used.", variable+"       address of the webhook; empty sends nothing"),
		OnUsageError: runner.UsageError,
		Flags: append(runner.Flags(&c.Config),
			&cli.StringFlag{Name: "pipeline", EnvVars: []string{"ORCHARD_PIPELINE"}, Destination: &c.Pipeline, Usage: "`NAME` of what has ended"},
			&cli.StringFlag{Name: "status", EnvVars: []string{"ORCHARD_SUMMARY_STATUS"}, Destination: &c.Status, Usage: "`PHASE` in which the workflow ended"},
			&cli.StringFlag{Name: "duration", EnvVars: []string{"ORCHARD_SUMMARY_DURATION"}, Destination: &seconds, Usage: "`SECONDS` that the workflow took"},
			&cli.StringFlag{Name: "report", EnvVars: []string{"ORCHARD_NOTIFY_REPORT"}, Destination: &c.Report, Usage: "`URI` of the dataset of reports, to say where the run's page is"},
			&cli.Float64Flag{Name: "alpha", EnvVars: []string{"ORCHARD_ALPHA"}, Destination: &c.Alpha, Value: c.Alpha, Usage: "a lower rate with a McNemar p below this `LEVEL` is a regression"},
			&cli.StringFlag{Name: "webhook-file", EnvVars: []string{"ORCHARD_WEBHOOK_FILE"}, Destination: &file, Usage: "`FILE` with the address of the webhook, instead of " + variable},
			&cli.IntFlag{Name: "retries", EnvVars: []string{"ORCHARD_NOTIFY_RETRIES"}, Destination: &c.Retries, Value: c.Retries, Usage: "`NUMBER` of further tries to reach the webhook"},
		),
		Action: runner.Action("notify", "the dataset is given with --in", func(ctx context.Context) error {
			if seconds != "" {
				s, err := strconv.ParseFloat(seconds, 64)
				if err != nil || !(s >= 0 && s < 1e9) {
					return exit.Configf("--duration: %q must be a number of seconds", seconds)
				}
				c.Duration = time.Duration(s * float64(time.Second))
			}
			address := os.Getenv(variable)
			if file != "" {
				b, err := os.ReadFile(file)
				if err != nil {
					return exit.Configf("--webhook-file: %w", err)
				}
				address = string(b)
			}
			c.Webhook = llm.Secret(strings.TrimSpace(address))
			return Run(ctx, c, d)
		}),
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.In) > 1 {
		bad("--in: give one dataset of evaluations")
	}
	if !(c.Alpha > 0 && c.Alpha < 1) {
		bad("--alpha: %v must be above 0 and below 1", c.Alpha)
	}
	if c.Retries < 0 {
		bad("--retries: %d must not be negative", c.Retries)
	}
	if u, err := url.Parse(string(c.Webhook)); c.Webhook != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		bad("%s: must be an address that begins with http:// or https://", variable) // which is not shown
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// Run prints what there is to tell to d.Stdout, and sends it.
func Run(ctx context.Context, c Config, d runner.Deps) error {
	c.Out = cmp.Or(c.Out, "-") // shared, and not used
	if err := c.Validate(); err != nil {
		return err
	}
	d = d.WithDefaults()
	if err := c.run(ctx, d); err != nil {
		_, err = runner.Failed(c.Config, "notify", err)
		return err
	}
	return nil
}

func (c Config) run(ctx context.Context, d runner.Deps) error {
	m, err := c.message(ctx, d)
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(d.Stdout, "%s\n", body); err != nil {
		return fmt.Errorf("print the message: %w", err)
	}
	said := "sent to the webhook"
	switch {
	case c.Webhook == "":
		said = "no webhook is configured (" + variable + "), so nothing is sent"
	case c.DryRun:
		said = "dry run: nothing is sent"
	default:
		if err := c.send(ctx, body); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(d.Stdout, said)
	return err
}
