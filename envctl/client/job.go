package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Job is a handle of a command that was started. Safe for concurrent use.
type Job struct {
	client *Client
	id     string
}

// Job is the handle of the job with this id; nothing is asked.
func (c *Client) Job(id string) *Job { return &Job{c, id} }

// ID is the job's.
func (j *Job) ID() string { return j.id }

// JobStatus is how far a job is.
type JobStatus string

// The statuses of a job.
const (
	JobQueued    JobStatus = "queued"
	JobRunning   JobStatus = "running"
	JobSucceeded JobStatus = "succeeded" // exit code 0
	JobFailed    JobStatus = "failed"
)

// JobInfo is a job as the service tells it.
type JobInfo struct {
	ID, SandboxID, Command      string
	Status                      JobStatus
	ExitCode                    *int   // nil until it ended, and when nobody knows
	Reason                      string // why it ended otherwise than by itself: "timeout", "idle_timeout", "killed", "spawn", "lost"
	Error                       string // the same for people
	SandboxReason               string // of a lost one: why its sandbox ended
	Retryable                   bool   // of a lost one: another sandbox may do better
	Stdout, Stderr              []byte
	StdoutBytes, StderrBytes    int64
	StdoutTruncated             bool
	StderrTruncated             bool
	StdoutFile, StderrFile      string // in the sandbox, of a truncated stream
	Created, Started, Completed time.Time
}

// Ended reports whether the job has ended, or its sandbox has.
func (i JobInfo) Ended() bool { return i.Status == JobSucceeded || i.Status == JobFailed }

// Result is what an ended job came to; *Gone when its sandbox ended first, so that nobody
// knows what it did.
func (i JobInfo) Result() (Result, error) {
	switch {
	case i.Reason == "lost":
		reason := i.SandboxReason
		if reason == "" {
			reason = i.Reason
		}
		return Result{}, &Gone{Reason: reason, Detail: i.Error, Retryable: i.Retryable}
	case i.ExitCode == nil:
		return Result{}, fmt.Errorf("job %s ended without an exit code: %s", i.ID, i.Error)
	}
	r := Result{
		ExitCode: *i.ExitCode, TimedOut: i.Reason == "timeout" || i.Reason == "idle_timeout",
		Stdout: i.Stdout, Stderr: i.Stderr, StdoutBytes: i.StdoutBytes, StderrBytes: i.StderrBytes,
		Truncated: i.StdoutTruncated || i.StderrTruncated, Reason: i.Reason, Error: i.Error, JobID: i.ID,
	}
	if !i.Started.IsZero() {
		r.Duration = i.Completed.Sub(i.Started)
	}
	return r, nil
}

func jobOf(j rest.Job) JobInfo {
	at := func(seconds *float64) time.Time {
		if seconds == nil {
			return time.Time{}
		}
		return time.UnixMicro(int64(*seconds * 1e6))
	}
	return JobInfo{
		ID: j.ID, SandboxID: j.SandboxID, Command: j.Command, Status: JobStatus(j.Status), ExitCode: j.ExitCode,
		Reason: j.Reason, Error: j.Error, SandboxReason: j.BoxReason, Retryable: j.Again, Stdout: j.Stdout, Stderr: j.Stderr,
		StdoutBytes: j.StdoutBytes, StderrBytes: j.StderrBytes, StdoutTruncated: j.StdoutCut, StderrTruncated: j.StderrCut,
		StdoutFile: j.StdoutFile, StderrFile: j.StderrFile,
		Created: at(j.Created), Started: at(j.Started), Completed: at(j.Completed),
	}
}

// Info is the job as it is now, with its output so far.
func (j *Job) Info(ctx context.Context) (JobInfo, error) {
	got, err := j.client.rest.Job(ctx, escape(j.id), 0)
	return jobOf(got), explain("get job "+j.id, err)
}

// Wait is what the job came to, once it has ended. The job goes on when ctx ends first.
func (j *Job) Wait(ctx context.Context) (Result, error) {
	for {
		got, err := j.client.rest.Job(ctx, escape(j.id), rest.Slice)
		if err != nil {
			return Result{}, explain("wait for job "+j.id, err)
		}
		if got.Over() {
			r, err := jobOf(got).Result()
			if err != nil {
				return r, fmt.Errorf("job %s: %w", j.id, err)
			}
			return r, nil
		}
	}
}

// Kill ends the job and everything that it started.
func (j *Job) Kill(ctx context.Context) error {
	return j.client.call(ctx, "kill job "+j.id, rest.Request{Method: http.MethodPost, Path: "/jobs/" + escape(j.id) + "/kill"})
}

// Output is what the job has printed so far on "stdout" or "stderr" from an offset on;
// the second value is the offset at which it begins, larger than asked for when the
// middle of a very long stream is not kept.
func (j *Job) Output(ctx context.Context, stream string, offset int64) (io.ReadCloser, int64, error) {
	resp, err := j.client.rest.Get(ctx, "/jobs/"+escape(j.id)+"/output",
		url.Values{"stream": {stream}, "offset": {strconv.FormatInt(offset, 10)}}, nil)
	if err != nil {
		return nil, 0, explain("output of job "+j.id, err)
	}
	begins, err := strconv.ParseInt(resp.Header.Get("X-Output-Offset"), 10, 64)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("output of job %s: the answer does not say where it begins", j.id), resp.Body.Close())
	}
	return resp.Body, begins, nil
}
