package envctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// execFlags are those of a command; run and exec have them.
func execFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "pass standard input on, as it comes"},
		&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "on a terminal of its own"},
		&cli.StringFlag{Name: "cwd", Aliases: []string{"w"}, Usage: "run it in `FOLDER`"},
		&cli.BoolFlag{Name: "login", Usage: "through a login shell, which reads ~/.bashrc"},
		&cli.DurationFlag{Name: "timeout", Value: 24 * time.Hour, Usage: "end it after `TIME`, with exit code 124"},
		&cli.DurationFlag{Name: "idle-timeout", Usage: "end it when it prints nothing for `TIME`"},
		&cli.BoolFlag{Name: "merge", Usage: "its stderr into its stdout, in the order written"},
	}
}

func (p *Program) exec() *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a command in a sandbox", ArgsUsage: "ID [--] COMMAND [ARG...]",
		Description: "Output comes as it is printed, and the exit code is the command's. It runs beside other commands.\n" +
			"COMMAND is run without a shell: for one, exec ID -- sh -c '...'.\n" +
			"Ctrl-C interrupts the command, a second one kills it. With --local the ID is an image.",
		Flags: append(execFlags(),
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "`NAME=VALUE`, or NAME alone for this machine's value; repeatable"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the job's id and leave it running; see logs, jobs and kill"},
			&cli.BoolFlag{Name: "queue", Usage: "after the commands before it, as the API does"}),
		Action: func(c *cli.Context) error {
			if p.flags.local {
				return p.once(c)
			}
			args, err := want(c, 2, -1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				return p.command(c, sdk.Sandbox(args[0]), args[1:])
			})
		},
	}
}

func (p *Program) oneOff() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "make a sandbox, run a command in it, end it", ArgsUsage: "IMAGE [--] COMMAND [ARG...]",
		Description: "As create, exec and rm in one. --keep leaves the sandbox and says its id.",
		Flags: append(append(execFlags(), specFlags()...),
			&cli.BoolFlag{Name: "keep", Usage: "do not end the sandbox"}),
		Action: p.once,
	}
}

// once makes a sandbox for one command.
func (p *Program) once(c *cli.Context) error {
	args, err := want(c, 2, -1)
	if err != nil {
		return err
	}
	s, err := spec(c, args[0])
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		return p.inside(c, sdk, s, func(box *client.Sandbox) error { return p.command(c, box, args[1:]) })
	})
}

// oneOffLease is how long a sandbox of one verb outlives an envctl that was killed.
const oneOffLease = time.Minute

// inside makes a sandbox for do and ends it after. Should envctl not live to do that, the
// lease does.
func (p *Program) inside(c *cli.Context, sdk *client.Client, s client.Spec, do func(*client.Sandbox) error) error {
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = time.Hour
	}
	if s.Lease == 0 && !c.Bool("keep") {
		s.Lease = oneOffLease
	}
	box, _, err := p.begin(c.Context, sdk, s, true)
	if err != nil {
		return err
	}
	if c.Bool("keep") {
		p.say("%s", box.ID())
	} else {
		defer p.remove(c.Context, box)
	}
	if s.Lease > 0 {
		ctx, cancel := context.WithCancel(c.Context)
		var beats sync.WaitGroup
		defer beats.Wait()
		defer cancel()
		beats.Go(func() { _ = box.KeepAlive(ctx, s.Lease) }) // its end shows in whatever do does
	}
	return do(box)
}

// command runs one command as the flags say.
func (p *Program) command(c *cli.Context, box *client.Sandbox, argv []string) error {
	cmd := client.Command{
		Argv: argv, Cwd: c.String("cwd"), Timeout: c.Duration("timeout"), IdleTimeout: c.Duration("idle-timeout"),
		Merge: c.Bool("merge"), Concurrent: !c.Bool("queue"), StdinOpen: c.Bool("interactive"),
	}
	if c.Command.Name == "exec" { // run's is the sandbox's
		var err error
		if cmd.Env, err = environ(c.StringSlice("env")); err != nil {
			return err
		}
	}
	if cmd.Timeout <= 0 {
		return exit.Configf("--timeout: %v is not a time above zero", cmd.Timeout)
	}
	if c.Bool("login") {
		cmd.Shell, cmd.Argv, cmd.Login = quote(argv), nil, true
	}
	switch {
	case c.Bool("tty") && (c.Bool("detach") || p.json() || cmd.IdleTimeout > 0):
		return exit.Configf("--tty goes with neither --detach, --idle-timeout nor -o json")
	case c.Bool("detach") && cmd.StdinOpen:
		return exit.Configf("--detach and --interactive exclude each other")
	case c.Bool("tty"):
		return p.terminal(c.Context, box, client.TerminalSpec{Argv: argv, Env: cmd.Env, Cwd: cmd.Cwd, Login: cmd.Login}, cmd.Timeout)
	}
	job, err := box.Start(c.Context, cmd)
	if err != nil {
		return err
	}
	if c.Bool("detach") {
		return p.print(map[string]string{"job_id": job.ID()}, func(w io.Writer) { fmt.Fprintln(w, job.ID()) })
	}
	return p.attend(c.Context, job, cmd.StdinOpen)
}

// attend follows a job to its end, with Ctrl-C for it.
func (p *Program) attend(ctx context.Context, job *client.Job, feed bool) error {
	defer p.handOver(ctx, job)()
	if feed {
		// The reading of a terminal cannot be ended; it ends with the process.
		go func() {
			if err := job.Feed(ctx, p.In); err != nil && ctx.Err() == nil {
				p.say("envctl: %v", err)
			}
		}()
	}
	if p.json() {
		return p.attendJSON(ctx, job)
	}
	r, err := job.Follow(ctx, p.Out, p.Err)
	if err != nil {
		return unknown{err}
	}
	return p.outcome(r)
}

// outcome is the exit code of a result, after what is to be said of it.
func (p *Program) outcome(r client.Result) error {
	if r.Error != "" && r.Reason != "spawn" { // that is in its stderr
		fmt.Fprintln(p.Err, "envctl:", oneLine(r.Error))
	}
	return remote(r.ExitCode)
}

// attendJSON prints all at the end.
func (p *Program) attendJSON(ctx context.Context, job *client.Job) error {
	r, err := job.Wait(ctx)
	if err != nil {
		return unknown{err}
	}
	if err := p.print(jsonResult(r), nil); err != nil {
		return err
	}
	return remote(r.ExitCode)
}

func jsonResult(r client.Result) any {
	return struct {
		JobID       string  `json:"job_id"`
		ExitCode    int     `json:"exit_code"`
		TimedOut    bool    `json:"timed_out"`
		Stdout      string  `json:"stdout"`
		Stderr      string  `json:"stderr"`
		StdoutBytes int64   `json:"stdout_bytes"`
		StderrBytes int64   `json:"stderr_bytes"`
		Truncated   bool    `json:"truncated"`
		Reason      string  `json:"reason,omitempty"`
		Error       string  `json:"error,omitempty"`
		Seconds     float64 `json:"seconds"`
	}{r.JobID, r.ExitCode, r.TimedOut, string(r.Stdout), string(r.Stderr), r.StdoutBytes, r.StderrBytes, r.Truncated, r.Reason, r.Error, r.Duration.Seconds()}
}

// handOver makes Ctrl-C the job's: the first interrupts it, the second kills it. SIGTERM
// kills it at once. back ends that.
func (p *Program) handOver(ctx context.Context, job *client.Job) (back func()) {
	var times atomic.Int32
	return p.stops.hand(func(sig os.Signal) {
		do := job.Kill
		if times.Add(1) == 1 && sig == syscall.SIGINT {
			do = func(ctx context.Context) error { return job.Signal(ctx, "INT") }
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if err := do(ctx); err != nil && ctx.Err() == nil {
				p.say("envctl: %v", err)
			}
		}()
	})
}

// quote is argv as a shell reads it back.
func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
