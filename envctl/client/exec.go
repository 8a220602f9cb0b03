package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Command is what to run. Exactly one of Shell and Argv is set.
type Command struct {
	Shell       string   // text for the image's shell
	Argv        []string // a program and its arguments, run without a shell
	Cwd         string   // "" is the sandbox's working folder
	Env         map[string]string
	Stdin       []byte
	StdinOpen   bool          // Start only: standard input stays open after Stdin, for Job.Feed
	Login       bool          // Shell through a login shell
	Timeout     time.Duration // from its start; 0 is the service's default, 5 minutes unless set otherwise
	IdleTimeout time.Duration // end it when it prints nothing for so long; 0 is never
	Merge       bool          // stderr into stdout, in the order written
	Concurrent  bool          // do not queue behind other commands
	// IdempotencyKey names this very command: a repeat with it finds the first one's job,
	// at any time in the sandbox's life. "" is a new one.
	IdempotencyKey string
}

func (c *Command) request() (rest.Exec, error) {
	if (c.Shell == "") == (len(c.Argv) == 0) {
		return rest.Exec{}, errors.New("a command has either Shell or Argv")
	}
	if c.IdempotencyKey == "" {
		c.IdempotencyKey = rest.NewKey()
	}
	return rest.Exec{
		Command: c.Shell, Argv: c.Argv, Cwd: c.Cwd, Env: c.Env, Stdin: c.Stdin, StdinOpen: c.StdinOpen, Login: c.Login,
		Timeout: c.Timeout.Seconds(), IdleTimeout: c.IdleTimeout.Seconds(), Merge: c.Merge, Concurrent: c.Concurrent,
	}, nil
}

// Result is a command that ran and ended.
type Result struct {
	ExitCode    int // N of exit(N), -N for signal N, 124 with TimedOut
	TimedOut    bool
	Stdout      []byte // up to the service's cap, head and tail beyond it
	Stderr      []byte
	StdoutBytes int64 // printed in all
	StderrBytes int64
	Truncated   bool
	// Reason and Error are why it ended otherwise than by itself: "timeout", "idle_timeout",
	// "killed", or "spawn" when it could not be started.
	Reason   string
	Error    string
	Duration time.Duration
	JobID    string
}

// Exec runs a command to its end, once, however often connections break. When ctx ends
// first the command is killed.
func (s *Sandbox) Exec(ctx context.Context, c Command) (Result, error) {
	doing := "exec in sandbox " + s.id
	e, err := c.request()
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", doing, err)
	}
	j, err := s.client.rest.Run(ctx, escape(s.id), e, c.IdempotencyKey)
	if ctx.Err() != nil && !j.Over() {
		return Result{}, fmt.Errorf("%s: %w", doing, errors.Join(context.Cause(ctx), s.client.rest.Kill(ctx, escape(s.id), e, c.IdempotencyKey, j.ID)))
	}
	if err != nil {
		return Result{}, explain(doing, err)
	}
	r, err := jobOf(j).Result()
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", doing, err)
	}
	return r, nil
}

// Start starts a command and returns its job at once.
func (s *Sandbox) Start(ctx context.Context, c Command) (*Job, error) {
	doing := "start a command in sandbox " + s.id
	e, err := c.request()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	j, err := s.client.rest.Submit(ctx, escape(s.id), e, c.IdempotencyKey, 0)
	if err != nil {
		return nil, explain(doing, err)
	}
	return s.client.Job(j.ID), nil
}
