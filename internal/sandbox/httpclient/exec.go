package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/internal/sandbox"
)

// job is a command as the service tells it.
type job struct {
	ID          string   `json:"job_id"`
	Status      string   `json:"status"`
	ExitCode    *int     `json:"exit_code"`
	Started     *float64 `json:"started_at"`
	Completed   *float64 `json:"completed_at"`
	Error       string   `json:"error"`
	Reason      string   `json:"reason"`
	Stdout      []byte   `json:"stdout_base64"`
	Stderr      []byte   `json:"stderr_base64"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	StdoutCut   bool     `json:"stdout_truncated"`
	StderrCut   bool     `json:"stderr_truncated"`
}

func (j job) over() bool { return j.Status == "succeeded" || j.Status == "failed" }

var exact = url.Values{"output": {"base64"}}

// Exec implements sandbox.Sandbox. When ctx ends first, the command is killed.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if c.Timeout <= 0 || (c.Shell == "") == (len(c.Argv) == 0) {
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: a command needs a timeout and one of shell and argv", b.id)
	}
	if c.IdempotencyKey == "" {
		c.IdempotencyKey = newKey()
	}
	j, err := b.run(ctx, c)
	if ctx.Err() != nil && !j.over() {
		err = errors.Join(context.Cause(ctx), b.kill(ctx, c, j.ID))
	}
	switch err = lost(b.id, err); {
	case err != nil:
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: %w", b.id, err)
	case j.Reason == "lost":
		return sandbox.Result{}, &sandbox.Lost{ID: b.id, Reason: j.Error}
	case j.ExitCode == nil:
		return sandbox.Result{}, fmt.Errorf("exec in sandbox %s: job %s ended without an exit code: %s", b.id, j.ID, j.Error)
	}
	r := sandbox.Result{
		ExitCode: *j.ExitCode, TimedOut: j.Reason == "timeout" || j.Reason == "idle_timeout",
		Stdout: j.Stdout, Stderr: j.Stderr, StdoutBytes: j.StdoutBytes, StderrBytes: j.StderrBytes,
		Truncated: j.StdoutCut || j.StderrCut,
	}
	if j.Started != nil && j.Completed != nil {
		r.Duration = time.Duration((*j.Completed-*j.Started)*1e6) * time.Microsecond
	}
	return r, nil
}

// run submits c and follows its job to the end.
func (b *box) run(ctx context.Context, c sandbox.Command) (job, error) {
	j, err := b.submit(ctx, c, slice)
	for err == nil && !j.over() {
		next := job{}
		err = b.client.call(ctx, request{
			method: http.MethodGet, path: "/jobs/" + j.ID + "/wait", out: &next, limit: slice + answerTime,
			query: url.Values{"output": exact["output"], "timeout": {strconv.FormatFloat(slice.Seconds(), 'f', 0, 64)}},
		})
		if err == nil {
			j = next
		}
	}
	return j, err
}

// submit starts c, or finds the job that c's key started before, and waits for it.
func (b *box) submit(ctx context.Context, c sandbox.Command, wait time.Duration) (j job, err error) {
	body := map[string]any{
		"timeout_seconds": c.Timeout.Seconds(), "cwd": orNull(c.Cwd), "env": c.Env,
		"wait": wait > 0, "wait_seconds": wait.Seconds(),
		"merge": c.Merge, "concurrent": c.Concurrent,
	}
	if len(c.Argv) > 0 {
		body["argv"] = c.Argv
	} else {
		body["command"] = c.Shell
	}
	if len(c.Stdin) > 0 {
		body["stdin_base64"] = c.Stdin
	}
	err = b.client.call(ctx, request{
		method: http.MethodPost, path: b.path("/exec"), query: exact, key: c.IdempotencyKey,
		body: body, out: &j, limit: wait + answerTime,
	})
	return j, err
}

// kill ends c's job after ctx has ended. When no answer told the job's id, the key does:
// the request may have arrived all the same.
func (b *box) kill(ctx context.Context, c sandbox.Command, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if id == "" {
		j, err := b.submit(ctx, c, 0)
		if err != nil {
			return fmt.Errorf("find the command to kill it: %w", lost(b.id, err))
		}
		id = j.ID
	}
	err := b.client.call(ctx, request{method: http.MethodPost, path: "/jobs/" + id + "/kill", limit: answerTime})
	if err != nil {
		return fmt.Errorf("kill job %s: %w", id, err)
	}
	return nil
}
