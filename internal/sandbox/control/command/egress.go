package command

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube"
	"orchard/internal/sandbox/kube/gateway"
)

// egressCommand is the proxy that sandboxes reach what is granted by name or for a time
// through. It needs no controller.
func egressCommand(o *options, stderr io.Writer) *cli.Command {
	listen, ops, keysFile, drain := ":3128", ":8080", "", 10*time.Second
	return &cli.Command{
		Name:  "egress",
		Usage: "serve the egress proxy of a cluster's sandboxes",
		Description: `Opens to each sandbox what the grant at its Pod says, which a controller has signed,
for as long as it says. It may only list and watch Pods, and holds no private key. The flags
--namespace, --kubeconfig, --closed-networks and --log-level before the word egress are used.

EXIT STATUS
   0   told to stop
   78  bad flags or environment`,
		Flags: []cli.Flag{
			text("listen", "EGRESS_LISTEN", "proxy on `HOST:PORT`", &listen),
			text("ops-listen", "EGRESS_OPS_LISTEN", "answer /health, /ready and /metrics on `HOST:PORT`", &ops),
			text("public-keys-file", "ORCHARD_PUBLIC_KEYS_FILE", "the controllers' public keys, in `FILE`; see the command pubkey", &keysFile),
			seconds("drain", "DRAIN_SECONDS", "on SIGTERM let connections end for `TIME`", &drain),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			ctx, err := o.logged(c.Context, stderr)
			if err != nil {
				return err
			}
			keys, err := publicKeys(keysFile)
			if err != nil {
				return err
			}
			more, err := egress.ParsePrefixes(o.network.closed)
			if err != nil {
				return exit.Configf("--closed-networks: %w", err)
			}
			client, err := kube.Client(o.kube)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return exit.Configf("--listen: %w", err)
			}
			opsListener, err := net.Listen("tcp", ops)
			if err != nil {
				l.Close()
				return exit.Configf("--ops-listen: %w", err)
			}
			zerolog.Ctx(ctx).Info().Stringer("address", l.Addr()).Stringer("ops", opsListener.Addr()).Int("keys", len(keys)).Msg("egress proxy starts")
			return gateway.Serve(ctx, l, opsListener, gateway.Config{
				Client: client, Namespace: o.settings.Namespace, Keys: keys, Closed: append(egress.Special(), more...), Drain: drain,
			})
		},
	}
}

func publicKeys(file string) ([]ed25519.PublicKey, error) {
	if file == "" {
		return nil, exit.Configf("--public-keys-file: missing: the controllers' public keys, which orchard-controller pubkey prints")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, exit.Configf("--public-keys-file: %w", err)
	}
	keys, err := wire.ParsePublicKeys(string(raw))
	if err != nil {
		return nil, exit.Configf("--public-keys-file: %s: %w", file, err)
	}
	return keys, nil
}

// pubkeyCommand keeps the private key out of whatever only has to know the controllers.
func pubkeyCommand(o *options) *cli.Command {
	var out string
	return &cli.Command{
		Name:  "pubkey",
		Usage: "print the public key of the one in --signing-key-file, for the egress proxy",
		Flags: []cli.Flag{&cli.StringFlag{Name: "out", Usage: "write it to `FILE` instead", Destination: &out}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			key, err := kube.SigningKey(o.kube)
			if err != nil {
				return err
			}
			public := wire.FormatPublicKey(key.Public().(ed25519.PublicKey)) + "\n"
			if out == "" {
				_, err = io.WriteString(c.App.Writer, public)
			} else {
				err = os.WriteFile(out, []byte(public), 0o644)
			}
			if err != nil {
				return fmt.Errorf("write the public key: %w", err)
			}
			return nil
		},
	}
}
