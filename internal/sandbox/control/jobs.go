package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"orchard/agent/wire"
	"orchard/internal/lossy"
)

// Statuses of a job as clients see it.
const (
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
)

// reasonLost is the reason of a job whose sandbox ended before it did: what it did is
// not known.
const reasonLost = "lost"

// jobAnswer is a job as clients see it; the fields after Error are our own.
type jobAnswer struct {
	JobID       string   `json:"job_id"`
	SandboxID   string   `json:"sandbox_id"`
	Command     string   `json:"command"`
	Status      string   `json:"status"`
	Stdout      string   `json:"stdout"`
	Stderr      string   `json:"stderr"`
	ExitCode    *int     `json:"exit_code"`
	CreatedAt   *float64 `json:"created_at"`
	StartedAt   *float64 `json:"started_at"`
	CompletedAt *float64 `json:"completed_at"`
	Error       *string  `json:"error"`

	Reason          string  `json:"reason,omitempty"`
	SandboxReason   string  `json:"sandbox_reason,omitempty"` // of a lost one: why its sandbox ended
	Retryable       *bool   `json:"retryable,omitempty"`      // of a lost one: another sandbox may do better
	TimeoutSeconds  float64 `json:"timeout_seconds,omitempty"`
	StdoutBytes     int64   `json:"stdout_bytes"`
	StderrBytes     int64   `json:"stderr_bytes"`
	StdoutTruncated bool    `json:"stdout_truncated"`
	StderrTruncated bool    `json:"stderr_truncated"`
	StdoutFile      string  `json:"stdout_file,omitempty"`
	StderrFile      string  `json:"stderr_file,omitempty"`
	StdoutBase64    *[]byte `json:"stdout_base64,omitempty"`
	StderrBase64    *[]byte `json:"stderr_base64,omitempty"`
}

// encoded reports whether the caller wants output as exact bytes.
func encoded(r *http.Request) bool { return r.URL.Query().Get("output") == "base64" }

// lostJob is the job of a sandbox that ended before anybody knew how the job did.
func lostJob(id, command string, st State) wire.Job {
	j := wire.Job{ID: id, Command: command, State: wire.Failed, Reason: reasonLost, SandboxReason: st.Reason,
		Error: fmt.Sprintf("Sandbox %s ended: %s", st.Spec.ID, endText(st))}
	if !st.Ended.IsZero() {
		j.EndedUS = st.Ended.UnixMicro()
	}
	return j
}

// jobView is j for a client: output as text, with U+FFFD for what is none, or in
// base64.
func jobView(j wire.Job, encoded bool) jobAnswer {
	id, _ := parseJobID(j.ID)
	v := jobAnswer{
		JobID: j.ID, SandboxID: id.sandbox, Command: j.Command, Status: j.State,
		CreatedAt: epoch(id.created), StartedAt: epochUS(j.StartedUS), CompletedAt: epochUS(j.EndedUS),
		Reason: j.Reason, TimeoutSeconds: id.timeout.Seconds(),
		StdoutBytes: j.Stdout.Bytes, StderrBytes: j.Stderr.Bytes,
		StdoutTruncated: j.Stdout.Truncated, StderrTruncated: j.Stderr.Truncated,
		StdoutFile: j.Stdout.File, StderrFile: j.Stderr.File,
	}
	if j.CreatedUS > 0 {
		v.CreatedAt = epochUS(j.CreatedUS)
	}
	if j.State != wire.Done && j.State != wire.Failed {
		return v
	}
	v.ExitCode, v.Status = j.ExitCode, statusFailed
	if j.Reason == reasonLost {
		v.SandboxReason, v.Retryable = j.SandboxReason, ptr(Retryable(j.SandboxReason))
	}
	if j.State == wire.Done && j.ExitCode != nil && *j.ExitCode == 0 && j.Reason == "" {
		v.Status = statusSucceeded
	}
	stderr, note := j.Stderr.Data, ""
	switch j.Reason {
	case wire.ReasonTimeout:
		v.Error = ptr(fmt.Sprintf("Command timed out after %gs", id.timeout.Seconds()))
		note = "\n" + *v.Error + " and was killed"
	case wire.ReasonIdleTimeout, wire.ReasonKilled:
		v.Error = ptr(j.Error)
		note = "\n" + j.Error
	case wire.ReasonSpawn: // it never ran, so it printed nothing
		v.Error, stderr = ptr(j.Error), []byte(j.Error)
	default:
		if j.Error != "" {
			v.Error = ptr(j.Error)
		}
	}
	if encoded {
		v.StdoutBase64, v.StderrBase64 = ptr(nonNil(j.Stdout.Data)), ptr(nonNil(stderr))
		return v
	}
	v.Stdout, v.Stderr = lossy.Text(j.Stdout.Data), lossy.Text(stderr)+note
	return v
}

func ptr[T any](v T) *T { return &v }

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func epochUS(us int64) *float64 {
	if us == 0 {
		return nil
	}
	return epoch(time.UnixMicro(us))
}

// owning is the sandbox of a job, with *ended when that has ended or been replaced.
func (s *Service) owning(ctx context.Context, id string) (State, error) {
	parts, ok := parseJobID(id)
	if !ok {
		return State{}, unknownJob(id)
	}
	st, err := s.runtime.Get(ctx, parts.sandbox)
	switch {
	case errors.Is(err, ErrNotFound):
		return st, unknownJob(id)
	case err != nil:
		return st, unasked(parts.sandbox, err)
	case uidHash(st.UID) != parts.uid:
		st.Reason, st.Message, st.Ended = ReasonReplaced, "another sandbox has its id by now", time.Time{}
		return st, &ended{st}
	case st.Phase == Ended:
		return st, &ended{st}
	}
	return st, nil
}

// findJob is a job, looked at until it ends or the time is over.
func (s *Service) findJob(ctx context.Context, id string, wait time.Duration) (wire.Job, error) {
	st, err := s.owning(ctx, id)
	var job wire.Job
	if err == nil {
		job, err = s.follow(ctx, st, time.Now().Add(wait), func(ctx context.Context, a agentClient, wait time.Duration) (wire.Job, error) {
			return a.job(ctx, id, wait)
		})
	}
	var end *ended
	if errors.As(err, &end) {
		return lostJob(id, "", end.State), nil
	}
	return job, fromAgent(err, "Job "+id+" not found")
}

func (s *Service) getJob(w http.ResponseWriter, r *http.Request) error {
	job, err := s.findJob(r.Context(), r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, jobView(job, encoded(r)))
	return nil
}

func (s *Service) waitJob(w http.ResponseWriter, r *http.Request) error {
	wait, err := querySeconds(r.URL.Query(), "timeout", 5*time.Minute, s.set.MaxTimeout)
	if err != nil {
		return err
	}
	job, err := s.findJob(r.Context(), r.PathValue("id"), wait)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, jobView(job, encoded(r)))
	return nil
}

// killJob ends a job and all that it started, and answers with it.
func (s *Service) killJob(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	st, err := s.owning(r.Context(), id)
	var job wire.Job
	if err == nil {
		job, err = s.follow(r.Context(), st, time.Now(), func(ctx context.Context, a agentClient, _ time.Duration) (wire.Job, error) {
			return a.kill(ctx, id)
		})
	}
	var end *ended
	switch {
	case errors.As(err, &end):
		job = lostJob(id, "", end.State)
	case err != nil:
		return fromAgent(err, "Job "+id+" not found")
	}
	writeJSON(w, http.StatusOK, jobView(job, encoded(r)))
	return nil
}

// jobOutput streams what a job has printed so far on one stream, from an offset on.
func (s *Service) jobOutput(w http.ResponseWriter, r *http.Request) error {
	id, q := r.PathValue("id"), r.URL.Query()
	if !q.Has("stream") {
		q.Set("stream", "stdout")
	}
	if v := q.Get("stream"); v != "stdout" && v != "stderr" {
		return invalidField("query", "stream", "value_error", "stream must be stdout or stderr")
	}
	if v := q.Get("offset"); strings.Trim(v, "0123456789") != "" || len(v) > 18 {
		return invalidField("query", "offset", "type_error.integer", "offset must be a whole number of bytes from the start")
	}
	st, err := s.owning(r.Context(), id)
	var end *ended
	if errors.As(err, &end) {
		return gone(end.State)
	} else if err != nil {
		return err
	}
	a, err := s.agent(r.Context(), st.Spec.ID)
	if err != nil {
		return away(5, "Sandbox %s agent not ready", st.Spec.ID)
	}
	resp, err := a.output(r.Context(), id, q)
	if err != nil {
		return s.agentFault(r.Context(), st, err, "Job "+id+" not found")
	}
	defer resp.Body.Close()
	return relay(w, resp)
}

// agentFault is why a request to an agent went wrong, for the client: the agent's own
// refusal, the sandbox's end, or an agent that cannot be reached now.
func (s *Service) agentFault(ctx context.Context, st State, err error, notFound string) error {
	var refusal *agentError
	if errors.As(err, &refusal) {
		return fromAgent(err, notFound)
	}
	if end := s.endOf(ctx, st); end != nil {
		return gone(end.(*ended).State)
	}
	return away(5, "Sandbox %s agent does not answer: %v", st.Spec.ID, err)
}

// relay streams an agent's answer with the headers that describe it. Once begun it can
// only be cut: half an answer must not look whole.
func relay(w http.ResponseWriter, resp *http.Response) error {
	for _, name := range []string{"Content-Length", "Content-Range", "Accept-Ranges", "Last-Modified", "X-File-Mode", "X-File-Mtime", "X-Output-Offset", "X-Output-Bytes"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
