// Package command is orchard-controller: the flags, their environment twins, and the
// sandbox service over the runtime that they name. It reads configuration once, at the
// start; it never takes a key from a flag and never prints one.
package command

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"orchard/internal/buildinfo"
	"orchard/internal/exit"
	"orchard/internal/logx"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/kube"
	"orchard/internal/sandbox/local"
)

const description = `Serves the sandbox API until SIGTERM or SIGINT, then answers what is being
asked. The local runtime ends its sandboxes then; those of a cluster live on, for the
next replica. Logs are JSON lines on stderr; nothing is printed on stdout.

ENVIRONMENT
   Every flag has the variable that its line names; a flag wins over its variable.
   Durations are seconds (SANDBOX_TTL_HOURS: hours) or have a unit, such as 90s or 2h.
   API_KEYS             the keys that are taken, separated by commas, spaces or newlines
   API_KEYS_FILE        a file with such keys, or with keys that have names and quotas
   HOST, PORT           the address, when --listen is not given
   Settings of the original service that mean nothing here are accepted and named in
   the log.

EXIT STATUS
   0   told to stop
   69  the cluster does not answer
   78  bad flags, environment, machine or cluster: the message says what and how to mend it
   1   a fault in Orchard: please report it`

// App is the program; stderr takes its log.
func App(stdout, stderr io.Writer) *cli.App {
	o := defaults()
	return &cli.App{
		Name:            "orchard-controller",
		Usage:           "serve sandboxes over the Orchard Env REST API",
		Version:         strings.TrimSpace(buildinfo.Version + " " + buildinfo.Commit()),
		Description:     description,
		Writer:          stdout,
		ErrWriter:       stderr,
		Flags:           o.flags(),
		HideHelpCommand: true,
		// The default ends the process from within.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return exit.With(exit.Config, err) },
		Commands:       []*cli.Command{checkCommand(o, stderr), checkWorkflowCommand(o, stderr), egressCommand(o, stderr), keygenCommand(), pubkeyCommand(o)},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Configf("unexpected argument %q", c.Args().First())
			}
			if err := o.complete(); err != nil {
				return exit.With(exit.Config, err)
			}
			ctx, err := o.logged(c.Context, stderr)
			if err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

// logged is ctx with the program's logger.
func (o *options) logged(ctx context.Context, stderr io.Writer) (context.Context, error) {
	log, err := logx.New(stderr, o.logLevel)
	if err != nil {
		return nil, exit.Configf("--log-level: %w", err)
	}
	return log.WithContext(ctx), nil
}

// run serves until ctx is over.
func run(ctx context.Context, o *options) (err error) {
	log := zerolog.Ctx(ctx)
	if names := ignored(os.Environ()); len(names) > 0 {
		log.Warn().Strs("variables", names).Msg("settings of the original service that mean nothing here")
	}
	if !o.settings.RequireKey {
		log.Warn().Msg("no API key is required: whoever can connect can run commands")
	}
	rt, end, err := o.open(ctx)
	if err != nil {
		return fmt.Errorf("%s runtime: %w", o.runtime, err)
	}
	defer func() {
		if endErr := end(); err == nil && endErr != nil {
			err = fmt.Errorf("end sandboxes: %w", endErr)
		}
	}()
	l, err := net.Listen("tcp", o.address())
	if err != nil {
		return exit.Configf("--listen: %w", err)
	}
	log.Info().Str("runtime", o.runtime).Stringer("address", l.Addr()).Int("keys", o.settings.Keys.Len()).Msg("serving")
	err = control.Serve(ctx, l, rt, o.settings)
	log.Info().Msg("stopping")
	return err
}

// open is the runtime that was asked for. end is for when nothing is served any more: it
// takes the local sandboxes along and leaves a cluster's as they are.
func (o *options) open(ctx context.Context) (rt control.Runtime, end func() error, err error) {
	if o.runtime == runtimeKubernetes {
		k, err := kube.New(ctx, o.kube)
		if err != nil {
			return nil, nil, err
		}
		watching, stop := context.WithCancel(ctx)
		var canary sync.WaitGroup
		if o.canary {
			canary.Go(func() { k.WatchNetwork(watching) })
		}
		return k, func() error { stop(); canary.Wait(); k.Close(); return nil }, nil
	}
	l, err := local.New(ctx, o.local)
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}
