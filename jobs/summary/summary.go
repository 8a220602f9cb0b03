// Package summary is the last step of a pipeline, whatever became of it: a table of what
// the run's datasets hold and cost, for whoever looks at a workflow in a terminal or the
// Argo UI, and the command to go on with after a failure.
//
// It only reads, writes nothing to the store, and fails for nothing but wrong flags: of a store
// that is away or does not know us it says so, for that is mostly why the run ended.
package summary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// Config is the step's settings.
type Config struct {
	runner.Config
	Status   string        // of the workflow, such as Succeeded; "" is not known
	Duration time.Duration // of the workflow so far; 0 is not known
}

// Command is `orchard summary`.
func Command(d runner.Deps) *cli.Command {
	c := Config{Config: runner.Default()}
	seconds := ""
	return &cli.Command{
		Name:  "summary",
		Usage: "say what a run has made and what it cost",
		Description: runner.Describe("Prints a table of the datasets of --in, of which some may not exist yet, with rows, what was\n" +
			"dropped and why, and usage. Pipelines end with it, whatever became of them. With --output-dir it\n" +
			"writes the same to summary.txt there; --out is not used."),
		OnUsageError: runner.UsageError,
		Flags: append(runner.Flags(&c.Config),
			&cli.StringFlag{Name: "status", EnvVars: []string{"ORCHARD_SUMMARY_STATUS"}, Destination: &c.Status, Usage: "`PHASE` in which the workflow ended"},
			&cli.StringFlag{Name: "duration", EnvVars: []string{"ORCHARD_SUMMARY_DURATION"}, Destination: &seconds, Usage: "`SECONDS` that the workflow took"}),
		Action: runner.Action("summary", "datasets are given with --in", func(ctx context.Context) error {
			if seconds != "" {
				s, err := strconv.ParseFloat(seconds, 64)
				if err != nil || !(s >= 0 && s < 1e9) {
					return exit.Configf("--duration: %q must be a number of seconds", seconds)
				}
				c.Duration = time.Duration(s * float64(time.Second))
			}
			return Run(ctx, c, d)
		}),
	}
}

// Run prints the summary to d.Stdout and, with OutputDir, into summary.txt.
func Run(ctx context.Context, c Config, d runner.Deps) error {
	c.Out = cmp.Or(c.Out, "-") // shared, and not used
	if err := c.Validate(); err != nil {
		return err
	}
	d = d.WithDefaults()
	var text strings.Builder
	if err := write(ctx, &text, c, d); err != nil {
		_, err = runner.Failed(c.Config, "summary", err)
		return err
	}
	if _, err := io.WriteString(d.Stdout, text.String()); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	return runner.SaveOutput(c.OutputDir, "summary.txt", []byte(text.String()))
}

func write(ctx context.Context, w io.Writer, c Config, d runner.Deps) error {
	fmt.Fprintf(w, "run %s: %s", c.RunID, cmp.Or(c.Status, "status unknown"))
	if c.Duration > 0 {
		fmt.Fprintf(w, " after %v", c.Duration.Round(time.Second))
	}
	fmt.Fprint(w, "\n\n")
	began := d.Now().Add(-c.Duration)
	var total record.Usage
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "DATASET\tROWS\tDROPPED\tMADE\tVERSION")
	var away error // why the store cannot be asked; one answer is enough
	for _, uri := range c.In {
		if away != nil {
			fmt.Fprintf(tw, "%s\t?\t?\t?\t%s\n", name(uri), "as above")
			continue
		}
		v, err := datasets.Open(ctx, d.Open, uri)
		if errors.Is(err, objstore.ErrNotFound) || err != nil && exit.Code(err) == exit.Input {
			fmt.Fprintf(tw, "%s\t-\t-\tno\t%s\n", name(uri), reason(err))
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if away = err; err != nil {
			fmt.Fprintf(tw, "%s\t?\t?\t?\t%s\n", name(uri), reason(err))
			continue
		}
		m := v.Manifest()
		made := "before"
		if c.Duration == 0 || !m.Run.Committed.Before(began) {
			made = m.Run.Committed.UTC().Format("15:04:05")
			total = total.Add(m.Run.Usage)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\n", name(uri), m.Rows, m.RowsIn-m.Rows, made, v.Location())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nusage: %s\n", usage(total))
	if c.Status != "" && c.Status != "Succeeded" {
		fmt.Fprintf(w, "\nGo on with what is left: submit the pipeline again with -p run-id=%s and the same parameters.\n", c.RunID)
	}
	return nil
}

func name(uri string) string { return uri[strings.LastIndex(uri, "/")+1:] }

// reason is the first line of why there is no version.
func reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func usage(u record.Usage) string {
	s := fmt.Sprintf("%d model calls, %v of sandboxes", u.ModelCalls, (time.Duration(u.SandboxMS) * time.Millisecond).Round(time.Second))
	if u.PromptTokens != nil && u.CompletionTokens != nil {
		s += fmt.Sprintf(", %d prompt and %d completion tokens", *u.PromptTokens, *u.CompletionTokens)
	}
	if u.CostUSD != nil {
		s += fmt.Sprintf(", %.2f USD", *u.CostUSD)
	}
	return s
}
