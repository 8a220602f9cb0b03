package envctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/pipeline/backing"
	"orchard/internal/sandbox/local"
)

// service is a sandbox service in this process, over the local runtime.
type service struct {
	url, key string
	stop     func()
	dir      string
}

// startLocal serves until close; sandboxes end with it.
func (p *Program) startLocal(ctx context.Context) (*service, error) {
	base := filepath.Join(local.DefaultCache(), "envctl")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("folder for sandboxes: %w", err)
	}
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		return nil, fmt.Errorf("folder for sandboxes: %w", err)
	}
	env, stop, err := backing.Start(ctx, backing.Options{StateDir: dir, CacheDir: local.DefaultCache(), Say: p.say})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &service{stop: stop, dir: dir}
	for _, e := range env {
		switch name, value, _ := strings.Cut(e, "="); name {
		case client.EnvURL:
			s.url = value
		case client.EnvKey:
			s.key = value
		}
	}
	return s, nil
}

func (s *service) close() error {
	s.stop()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the folder of the sandboxes: %w", err)
	}
	return nil
}

func (p *Program) serve() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "a sandbox service on this machine, for as long as a command or until Ctrl-C",
		ArgsUsage: "[-- COMMAND [ARG...]]",
		Description: "Runs COMMAND with SANDBOX_BASE_URL and SANDBOX_API_KEY set, and ends with its exit code.\n" +
			"Without one it prints the two as shell exports, on one line each, and waits.\n" +
			"Its sandboxes end with it. The key is new each time.",
		Action: func(c *cli.Context) error {
			p.flags.local, p.flags.url = true, ""
			return p.with(c.Context, func(*client.Client) error {
				if c.NArg() == 0 {
					fmt.Fprintf(p.Out, "export %s=%s\nexport %s=%s\n", client.EnvURL, p.local.url, client.EnvKey, p.local.key)
					<-c.Context.Done()
					return nil
				}
				return p.under(c.Context, c.Args().Slice())
			})
		},
	}
}

// under runs a command of this machine with the local service in its environment.
func (p *Program) under(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), client.EnvURL+"="+p.local.url, client.EnvKey+"="+p.local.key)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, p.Out, p.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	back := p.stops.hand(func(os.Signal) {}) // a terminal's Ctrl-C reaches the command by itself
	defer back()
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return status(ended.ExitCode())
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		fmt.Fprintf(p.Err, "envctl: run %s: %v\n", command[0], err)
		return status(codeNotFound) // as a shell has it
	case err != nil:
		return fmt.Errorf("run %s: %w", command[0], err)
	}
	return nil
}
