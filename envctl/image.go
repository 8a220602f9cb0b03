package envctl

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

func (p *Program) image() *cli.Command {
	return &cli.Command{
		Name: "image", Usage: "images on the machines before sandboxes need them",
		Subcommands: []*cli.Command{
			{
				Name: "pull", Usage: "have images on the machines that are there now", ArgsUsage: "IMAGE...",
				Description: "Prints the pre-pull's id, or with --wait what came of it. The exit code is 1 when an image is\n" +
					"not on a machine in the end. Ctrl-C ends only the waiting.",
				Flags: append([]cli.Flag{
					&cli.BoolFlag{Name: "wait", Aliases: []string{"w"}, Usage: "return when every image is there or has failed"},
					&cli.IntFlag{Name: "at-once", Usage: "pull `N` at a time, over all machines; default: the service's"},
					&cli.DurationFlag{Name: "timeout", Usage: "what is not there after `TIME` has failed; default: the service's"},
				}, machineFlags()...),
				Action: p.imagePull,
			},
			{Name: "ls", Usage: "list pre-pulls, or the single pulls of one", ArgsUsage: "[ID]", Action: p.imageList},
			{Name: "rm", Usage: "end and forget pre-pulls; images that are there stay", ArgsUsage: "ID...", Action: func(c *cli.Context) error {
				args, err := want(c, 1, -1)
				if err != nil {
					return err
				}
				return p.with(c.Context, func(sdk *client.Client) error {
					return each(args, func(id string) error { return sdk.DeletePrepull(c.Context, id) })
				})
			}},
		},
	}
}

// machineFlags are the flags of create that say which machines are meant.
func machineFlags() (flags []cli.Flag) {
	for _, f := range specFlags() {
		if slices.Contains([]string{"node-selector", "toleration", "runtime-class", "priority-class", "pull-secret", "spot"}, f.Names()[0]) {
			flags = append(flags, f)
		}
	}
	return flags
}

func (p *Program) imagePull(c *cli.Context) error {
	if err := p.noLocal("image"); err != nil {
		return err
	}
	args, err := want(c, 1, -1)
	if err != nil {
		return err
	}
	if c.Int("at-once") < 0 || c.Duration("timeout") < 0 {
		return exit.Configf("--at-once and --timeout must not be below zero")
	}
	s, err := spec(c, "")
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		pull, err := sdk.Prepull(c.Context, client.PrepullSpec{
			Images: args, AtOnce: c.Int("at-once"), Timeout: c.Duration("timeout"), NodeSelector: s.NodeSelector, Tolerations: s.Tolerations,
			RuntimeClass: s.RuntimeClass, PriorityClass: s.PriorityClass, PullSecrets: s.PullSecrets, Spot: s.Spot,
		})
		if err != nil {
			return err
		}
		if !c.Bool("wait") {
			return p.print(pull, func(w io.Writer) { fmt.Fprintln(w, pull.ID) })
		}
		last := ""
		pull, err = sdk.AwaitPrepull(c.Context, pull.ID, func(now client.Prepull) {
			if text := pullProgress(now); text != last && now.Status == client.PrepullRunning {
				p.say("%s: %s", now.ID, text)
				last = text
			}
		})
		if err != nil {
			return err
		}
		if err := p.print(pull, func(w io.Writer) { pullTable(w, pull) }); err != nil {
			return err
		}
		if pull.Status != client.PrepullComplete {
			return status(1)
		}
		return nil
	})
}

// pullProgress is how far p is, on one line.
func pullProgress(p client.Prepull) string {
	text := fmt.Sprintf("%d of %d present", p.Present, p.Present+p.Failed+p.Pulling+p.Pending)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Pulling > 0 {
		text += fmt.Sprintf(", %d being pulled", p.Pulling)
	}
	return text
}

func (p *Program) imageList(c *cli.Context) error {
	args, err := want(c, 0, 1)
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		if len(args) == 1 {
			one, err := sdk.PrepullOf(c.Context, args[0])
			if err != nil {
				return err
			}
			return p.print(one, func(w io.Writer) { pullTable(w, one) })
		}
		all, err := sdk.Prepulls(c.Context)
		if err != nil {
			return err
		}
		return p.print(listed(all), func(w io.Writer) {
			rows, now := make([][]string, len(all)), time.Now()
			for i, one := range all {
				total := one.Present + one.Failed + one.Pulling + one.Pending
				rows[i] = []string{one.ID, one.Status, fmt.Sprintf("%d/%d", one.Present, total), strconv.Itoa(one.Failed), age(one.Created.Time, now), strings.Join(one.Images, " ")}
			}
			table(w, "ID STATUS PRESENT FAILED AGE IMAGES", rows)
		})
	})
}

func pullTable(w io.Writer, p client.Prepull) {
	rows := make([][]string, len(p.Pulls))
	for i, one := range p.Pulls {
		note := one.Message
		if one.Reason != "" {
			note = one.Reason + ": " + note
		}
		rows[i] = []string{one.Image, one.Node, one.Status, note}
	}
	table(w, "IMAGE NODE STATUS NOTE", rows)
}
