// Command orchard-agent is the program inside every sandbox: it runs commands and
// moves files for the controllers whose signature it knows, and ends the sandbox when
// they stop renewing its lease. It is meant to be PID 1 but need not be.
//
//	orchard-agent [flags]      serve; see --help
//	orchard-agent copy DST     copy this program to DST, which then is executable
//	orchard-agent --version
//
// Each flag has an environment twin, ORCHARD_AGENT_ and its name: --listen, --uid,
// --keys or --keys-file, --cwd, --spool, --closed, --hide, --lease; only --env has none, and only
// ORCHARD_AGENT_IDENTITY, a secret, has no flag: the seed of the key by which the agent proves over TLS
// who it is. Commands get the agent's environment without those and what --hide names, and what --env adds.
//
// It prints JSON lines on stderr and nothing on stdout. It exits with 0 when a controller
// or, unless it is PID 1, SIGTERM or SIGINT told it to end; 44 when the lease ran out; 45 when the sandbox ran out of memory;
// 78 for bad settings; 1 when it cannot serve. Everything it started is dead by then.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"orchard/agent"
	"orchard/internal/buildinfo"
	"orchard/internal/sandbox/local/cell"
)

func main() {
	cell.Init()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := agent.SignalContext(context.Background())
	defer stop()
	err := run(ctx, os.Args[1:], log)
	if agent.ExitCode(err) != 0 {
		log.Error("ended", "err", err.Error())
	}
	os.Exit(agent.ExitCode(err))
}

func run(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("orchard-agent", buildinfo.Version, buildinfo.Commit())
		return nil
	}
	if len(args) > 0 && args[0] == "copy" {
		return agent.Copy(args[1:])
	}
	cfg, err := agent.ParseConfig(args, os.Environ(), os.Stderr)
	if err != nil {
		return err
	}
	cfg.Version = buildinfo.Version
	return agent.Run(ctx, cfg, log)
}
