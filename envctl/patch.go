package envctl

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
)

func (p *Program) patch() *cli.Command {
	return &cli.Command{
		Name: "patch", Usage: "apply a patch in a sandbox's working folder", ArgsUsage: "ID FILE|-",
		Description: "Ends with git apply's exit code: 1 when the patch does not apply, 128 when it is none.",
		Flags:       []cli.Flag{&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "give up after `TIME`"}},
		Action: func(c *cli.Context) error {
			args, err := want(c, 2, 2)
			if err != nil {
				return err
			}
			var patch []byte
			if args[1] == "-" {
				patch, err = io.ReadAll(p.In)
			} else {
				patch, err = os.ReadFile(args[1])
			}
			if err != nil {
				return fmt.Errorf("read the patch: %w", err)
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				r, err := sdk.Sandbox(args[0]).Patch(c.Context, patch, c.Duration("timeout"))
				if err != nil {
					return err
				}
				err = p.print(r, func(io.Writer) {
					io.WriteString(p.Out, r.Stdout)
					io.WriteString(p.Err, r.Stderr)
				})
				switch {
				case err != nil || r.Applied:
					return err
				case r.ExitCode == nil || *r.ExitCode == 0:
					return unknown{fmt.Errorf("patch sandbox %s: %s", args[0], r.Error)}
				}
				return remote(*r.ExitCode)
			})
		},
	}
}
