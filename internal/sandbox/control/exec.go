package control

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"orchard/agent/wire"
	"orchard/internal/seal"
)

// answerGrace is how much longer than its command an exec that waits may be answered:
// the original's client gives up at timeout + 60 s.
const answerGrace = 30 * time.Second

// exec runs a command. With wait it answers with the job when that has ended, at
// timeout + 30 s at the latest or after wait_seconds; without, with the job's id.
func (s *Service) exec(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	req, wait, err := parseExec(b, s.set)
	if err != nil {
		return err
	}
	st, _, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	req.TimeoutMS = min(req.TimeoutMS, s.longest(wait, st).Milliseconds())
	if streamed(r) {
		wait = 0
	}
	if err := s.identify(r, &req, st, b); err != nil {
		return err
	}
	job, err := s.submit(r.Context(), st, req, time.Now().Add(wait))
	if err != nil {
		return err
	}
	if streamed(r) {
		return s.streamExec(w, r, st, job)
	}
	var answer any = struct {
		JobID  string `json:"job_id"`
		Status string `json:"status"`
	}{job.ID, wire.Queued}
	if wait > 0 {
		answer = jobView(job, encoded(r))
		s.metrics.ran(job)
	}
	return s.deliver(w, r, st, job, answer)
}

// submit runs req and follows it to its end or until; a sandbox that ends meanwhile
// is a job that failed with its reason.
func (s *Service) submit(ctx context.Context, st State, req wire.ExecRequest, until time.Time) (wire.Job, error) {
	job, err := s.follow(ctx, st, until, func(ctx context.Context, a agentClient, wait time.Duration) (wire.Job, error) {
		return a.submit(ctx, req, wait)
	})
	var end *ended
	if errors.As(err, &end) {
		return lostJob(req.ID, commandText(req), end.State), nil
	}
	return job, fromAgent(err, "Sandbox "+st.Spec.ID+" not found")
}

// deliver answers with a job and tells its agent of the delivery.
func (s *Service) deliver(w http.ResponseWriter, r *http.Request, st State, job wire.Job, answer any) error {
	if !job.AckPending {
		writeJSON(w, http.StatusOK, answer)
		return nil
	}
	return writeDelivered(w, r, answer, job.Attached, func() (end func(sent bool)) {
		return s.delivering(r.Context(), st, job.ID)
	})
}

// identify gives req its job id and says which earlier request it may be a repeat of:
// by the caller's Idempotency-Key, or else by being the same request from the same key.
func (s *Service) identify(r *http.Request, req *wire.ExecRequest, st State, b *body) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	req.ID = newJobID(st, time.Duration(req.TimeoutMS)*time.Millisecond, time.Now())
	if key != "" {
		req.IdempotencyKey = seal.ID(owner(r), key)
		return nil
	}
	same := map[string]json.RawMessage{}
	for name := range b.fields {
		if raw := b.get(name); raw != nil && name != "wait" && name != "wait_seconds" {
			same[name] = raw
		}
	}
	sum, err := seal.Sum(same)
	if err != nil {
		return err
	}
	req.DedupKey = seal.ID(owner(r), st.UID, r.Pattern, sum)
	return nil
}

// parseExec reads an exec request and how long to wait for its job. The fields stdin,
// stdin_base64, stdin_open, argv, concurrent, merge, idle_timeout_seconds and wait_seconds are our own.
func parseExec(b *body, set Settings) (req wire.ExecRequest, wait time.Duration, err error) {
	req = wire.ExecRequest{
		Cwd: b.text("cwd"), Env: b.environ("env"), Login: b.flag("login_shell", false),
		Argv: b.list("argv"), Stdin: []byte(b.text("stdin")),
		StdinOpen: b.flag("stdin_open", false), Concurrent: b.flag("concurrent", false), Merge: b.flag("merge", false),
		IdleTimeoutMS: b.seconds("idle_timeout_seconds", set.MaxTimeout).Milliseconds(),
	}
	timeout := b.seconds("timeout_seconds", maxDuration)
	if timeout == 0 {
		timeout = set.DefaultTimeout
	}
	if b.flag("wait", false) { // for others the sandbox's life is the bound, see longest
		timeout = min(timeout, set.MaxTimeout)
	}
	req.TimeoutMS = timeout.Milliseconds()
	if raw := b.get("stdin_base64"); raw != nil {
		if len(req.Stdin) > 0 {
			b.fault("stdin_base64", "value_error", "give stdin or stdin_base64, not both")
		}
		if req.Stdin, err = base64.StdEncoding.DecodeString(b.text("stdin_base64")); err != nil {
			b.fault("stdin_base64", "value_error", "not base64: "+err.Error())
		}
	}
	switch command := b.get("command"); {
	case b.get("argv") != nil:
		if command != nil {
			b.fault("argv", "value_error", "give command or argv, not both")
		}
		if len(req.Argv) == 0 || req.Argv[0] == "" {
			b.fault("argv", "value_error", "argv must begin with a program")
		}
		if req.Login {
			b.fault("login_shell", "value_error", "argv runs without a shell; use command with login_shell")
		}
	case command != nil && command[0] == '[':
		// A plain join, no quoting: the original's callers rely on it. argv keeps words apart.
		req.Shell = strings.Join(b.list("command"), " ")
	default:
		b.required("command")
		req.Shell = b.text("command")
	}
	if len(req.Argv) == 0 && req.Shell == "" {
		req.Shell = " " // an empty command is a command that does nothing
	}
	if strings.ContainsRune(req.Shell+strings.Join(req.Argv, "")+req.Cwd, 0) {
		b.fault("command", "value_error", "command, argv and cwd must not hold NUL")
	}
	limit := b.seconds("wait_seconds", set.MaxTimeout)
	if b.flag("wait", false) {
		wait = timeout + answerGrace
		if limit > 0 {
			wait = min(wait, limit)
		}
	}
	return req, wait, b.err()
}

func commandText(req wire.ExecRequest) string {
	if len(req.Argv) > 0 {
		return strings.Join(req.Argv, " ")
	}
	return req.Shell
}
