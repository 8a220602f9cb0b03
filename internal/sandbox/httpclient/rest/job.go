package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Exec is the body of an exec request. Zero fields are not sent.
type Exec struct {
	Command     string            `json:"command,omitempty"`
	Argv        []string          `json:"argv,omitempty"`
	Timeout     float64           `json:"timeout_seconds,omitempty"`
	IdleTimeout float64           `json:"idle_timeout_seconds,omitempty"`
	Cwd         string            `json:"cwd,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Login       bool              `json:"login_shell,omitempty"`
	Stdin       []byte            `json:"stdin_base64,omitempty"`
	StdinOpen   bool              `json:"stdin_open,omitempty"`
	Merge       bool              `json:"merge,omitempty"`
	Concurrent  bool              `json:"concurrent,omitempty"`

	Wait        bool    `json:"wait"`
	WaitSeconds float64 `json:"wait_seconds"`
}

// Job is a command as the service tells it.
type Job struct {
	ID          string   `json:"job_id"`
	SandboxID   string   `json:"sandbox_id"`
	Command     string   `json:"command"`
	Status      string   `json:"status"`
	ExitCode    *int     `json:"exit_code"`
	Created     *float64 `json:"created_at"`
	Started     *float64 `json:"started_at"`
	Completed   *float64 `json:"completed_at"`
	Error       string   `json:"error"`
	Reason      string   `json:"reason"`
	BoxReason   string   `json:"sandbox_reason"` // of a lost one: why its sandbox ended
	Again       bool     `json:"retryable"`      // of a lost one: another sandbox may do better
	Stdout      []byte   `json:"stdout_base64"`
	Stderr      []byte   `json:"stderr_base64"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	StdoutCut   bool     `json:"stdout_truncated"`
	StderrCut   bool     `json:"stderr_truncated"`
	StdoutFile  string   `json:"stdout_file"`
	StderrFile  string   `json:"stderr_file"`
}

// Over reports whether the job has ended, or will never be known to have.
func (j Job) Over() bool { return j.Status == "succeeded" || j.Status == "failed" }

// TimedOut reports whether a limit of ours ended the job.
func (j Job) TimedOut() bool { return j.Reason == "timeout" || j.Reason == "idle_timeout" }

// Lost reports whether the job's sandbox ended first: what it did is not known.
func (j Job) Lost() bool { return j.Reason == "lost" }

// Duration is how long the command ran, 0 when that is not known.
func (j Job) Duration() time.Duration {
	if j.Started == nil || j.Completed == nil {
		return 0
	}
	return time.Duration((*j.Completed-*j.Started)*1e6) * time.Microsecond
}

var exact = url.Values{"output": {"base64"}}

// Submit starts a command, or finds the job that key started before, and waits for it
// for so long.
func (c *Client) Submit(ctx context.Context, sandbox string, e Exec, key string, wait time.Duration) (j Job, err error) {
	e.Wait, e.WaitSeconds = wait > 0, wait.Seconds()
	err = c.Call(ctx, Request{
		Method: http.MethodPost, Path: "/sandboxes/" + sandbox + "/exec", Query: exact, Key: key, Body: e, Wait: wait, Out: &j,
	})
	return j, err
}

// Run submits a command and follows its job to the end. When ctx ends first the command
// goes on: Kill it.
func (c *Client) Run(ctx context.Context, sandbox string, e Exec, key string) (Job, error) {
	j, err := c.Submit(ctx, sandbox, e, key, Slice)
	for err == nil && !j.Over() {
		var next Job
		if next, err = c.Job(ctx, j.ID, Slice); err == nil {
			j = next
		}
	}
	return j, err
}

// Job is a job once it has ended, or as it is after so long.
func (c *Client) Job(ctx context.Context, id string, wait time.Duration) (j Job, err error) {
	r := Request{Method: http.MethodGet, Path: "/jobs/" + id, Query: exact, Wait: wait, Out: &j}
	if wait > 0 {
		r.Path += "/wait"
		r.Query = url.Values{"output": exact["output"], "timeout": {Seconds(wait)}}
	}
	return j, c.Call(ctx, r)
}

// Kill ends the job of a command that its submitter waits for no longer. When no answer
// told the job's id, the key does: the request may have arrived all the same. It has ten
// seconds, also after ctx has ended.
func (c *Client) Kill(ctx context.Context, sandbox string, e Exec, key, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if id == "" {
		j, err := c.Submit(ctx, sandbox, e, key, 0)
		if err != nil {
			return fmt.Errorf("find the command to kill it: %w", err)
		}
		id = j.ID
	}
	if err := c.Call(ctx, Request{Method: http.MethodPost, Path: "/jobs/" + id + "/kill"}); err != nil {
		return fmt.Errorf("kill job %s: %w", id, err)
	}
	return nil
}
