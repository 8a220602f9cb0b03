package envctl

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/envctl/replay"
	"orchard/internal/exit"
)

func (p *Program) shell() *cli.Command {
	return &cli.Command{
		Name: "shell", Usage: "an interactive shell in a sandbox, with whatever shell its image has", ArgsUsage: "ID",
		Description: "With --image or --local it makes a sandbox of that image, and ends it after; with --local\n" +
			"the argument is the image.\n\n" +
			"--rollout ID --data URI puts the workspace of a stored rollout into a new sandbox: its\n" +
			"repository, and what the rollout had done to it after --step N.",
		Flags: append(specFlags(),
			&cli.StringFlag{Name: "image", Usage: "in a new sandbox of `IMAGE`, ended after"},
			&cli.BoolFlag{Name: "keep", Usage: "do not end that sandbox"},
			&cli.StringFlag{Name: "cwd", Aliases: []string{"w"}, Usage: "begin in `FOLDER`"},
			&cli.StringFlag{Name: "rollout", Usage: "the workspace of rollout `ID`, or a beginning of it"},
			&cli.StringFlag{Name: "data", Usage: "the dataset `URI` that holds the rollout"},
			&cli.IntFlag{Name: "step", Value: -1, Usage: "after step `N`, 0 is before the first; default: at the end"}),
		Action: func(c *cli.Context) error {
			image := c.String("image")
			if c.String("rollout") != "" {
				return p.rolloutShell(c)
			}
			if p.flags.local && image == "" {
				args, err := want(c, 1, 1)
				if err != nil {
					return err
				}
				image = args[0]
			} else if image != "" && c.NArg() > 0 {
				return exit.Configf("shell: give an ID or --image, not both")
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				if image == "" {
					args, err := want(c, 1, 1)
					if err != nil {
						return err
					}
					return p.talk(c.Context, sdk.Sandbox(args[0]), c.String("cwd"))
				}
				s, err := spec(c, image)
				if err != nil {
					return err
				}
				return p.inside(c, sdk, s, func(box *client.Sandbox) error { return p.talk(c.Context, box, c.String("cwd")) })
			})
		},
	}
}

// rolloutShell is a shell in the workspace of a stored rollout.
func (p *Program) rolloutShell(c *cli.Context) error {
	data, id, step := c.String("data"), c.String("rollout"), c.Int("step")
	switch {
	case data == "":
		return exit.Configf("--rollout needs --data, the dataset that holds the rollout")
	case c.NArg() > 0:
		return exit.Configf("shell: give an ID or --rollout, not both")
	case step < -1:
		return exit.Configf("--step: %d is below 0", step)
	}
	r, err := replay.Open(c.Context, data, id)
	if err != nil {
		return err
	}
	image := r.Task.Image
	if c.IsSet("image") || image == "" {
		image = c.String("image")
	}
	if image == "" {
		return exit.Configf("task %s names no image: give the one that it was played in with --image", r.Task.TaskID)
	}
	s, err := spec(c, image)
	if err != nil {
		return err
	}
	s.Workdir = r.Task.Workdir
	return p.with(c.Context, func(sdk *client.Client) error {
		return p.inside(c, sdk, s, func(box *client.Sandbox) error {
			note, err := r.Rebuild(c.Context, replay.Box{Sandbox: box}, step)
			if err != nil {
				return fmt.Errorf("rebuild the workspace of rollout %s: %w", r.Row.RolloutID, err)
			}
			p.say("%s: %s", r.Row.TaskID, note)
			return p.talk(c.Context, box, s.Workdir)
		})
	})
}

// shellsOfImages are the shells that are looked for, the most comfortable first.
var shellsOfImages = [][]string{{"bash"}, {"zsh"}, {"ash"}, {"sh"}, {"busybox", "sh"}}

// talk finds a shell and runs it on this terminal.
func (p *Program) talk(ctx context.Context, box *client.Sandbox, cwd string) error {
	for _, argv := range shellsOfImages {
		r, err := box.Exec(ctx, client.Command{Argv: append(argv[:len(argv):len(argv)], "-c", "exit 0"), Concurrent: true})
		if err != nil {
			return err
		}
		if r.ExitCode == 0 {
			return p.terminal(ctx, box, client.TerminalSpec{Argv: argv, Cwd: cwd}, noLimit)
		}
	}
	return &client.NotFound{Detail: "the image of sandbox " + box.ID() + " has no shell: run a program of its own with envctl exec -t"}
}
