package envctl

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
)

func (p *Program) events() *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "what happened to a sandbox, oldest first", ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until it has ended"},
			&cli.DurationFlag{Name: "interval", Value: time.Second, Usage: "with -f, look every `TIME`"},
		},
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, 1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				box := sdk.Sandbox(args[0])
				if !c.Bool("follow") {
					all, err := box.Events(c.Context)
					if err != nil {
						return err
					}
					return p.print(listed(all), func(w io.Writer) {
						for _, e := range all {
							eventLine(w, e)
						}
					})
				}
				return p.followEvents(c.Context, box, c.Duration("interval"))
			})
		},
	}
}

// followEvents prints each event once, a line each, and again when it happened again.
func (p *Program) followEvents(ctx context.Context, box *client.Sandbox, every time.Duration) error {
	type key struct {
		kind, message string
		at            int64
		count         int
	}
	seen := map[key]bool{}
	for {
		info, err := box.Info(ctx) // before the events, so that the last ones are among them
		if err != nil {
			return err
		}
		all, err := box.Events(ctx)
		if err != nil {
			return err
		}
		for _, e := range all {
			k := key{e.Type, e.Message, e.At.UnixMicro(), e.Count}
			if seen[k] {
				continue
			}
			seen[k] = true
			if err := p.print(e, func(w io.Writer) { eventLine(w, e) }); err != nil {
				return err
			}
		}
		if info.Status == client.Failed {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how one leaves
		case <-time.After(every):
		}
	}
}

func eventLine(w io.Writer, e client.Event) {
	times := ""
	if e.Count > 1 {
		times = fmt.Sprintf(" (%d times)", e.Count)
	}
	fmt.Fprintf(w, "%s  %-14s %s%s\n", e.At.Local().Format(time.DateTime), oneLine(e.Type), oneLine(e.Message), times)
}
