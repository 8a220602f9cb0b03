package command

import (
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/sandbox/kube"
)

// checkCommand tries whether a cluster is as the kubernetes runtime needs it.
func checkCommand(o *options, stderr io.Writer) *cli.Command {
	var image string
	return &cli.Command{
		Name:  "check",
		Usage: "see that the cluster is as the kubernetes runtime needs it, by making one sandbox",
		Description: `Checks permissions, namespace, NetworkPolicy, agent image and signing key, each with
a message that says what is missing; then makes a sandbox, runs a command in it and removes
it. The flags before the word check are those of the service, which may run meanwhile.

EXIT STATUS
   0   all is well
   69  the cluster does not answer, or has no room for a sandbox
   78  something is missing: the message says what`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "image", Usage: "`IMAGE` of the sandbox; default: the agent's", Destination: &image}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			if err := o.completeKube(); err != nil {
				return err
			}
			ctx, err := o.logged(c.Context, stderr)
			if err != nil {
				return err
			}
			said, err := kube.Try(ctx, o.kube, image)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "ok: %s\n", said)
			return err
		},
	}
}

// keygenCommand makes the key that all replicas share.
func keygenCommand() *cli.Command {
	return &cli.Command{
		Name:  "keygen",
		Usage: "print a new signing key, for --signing-key-file",
		Description: `The key is a secret: whoever has it can run commands in every sandbox. All replicas
must have the same one, and sandboxes answer only to the key that they were made with.`,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			_, key, err := ed25519.GenerateKey(nil)
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			_, err = fmt.Fprintln(c.App.Writer, wire.FormatPrivateKey(key))
			return err
		},
	}
}
