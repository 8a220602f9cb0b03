package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"orchard/internal/sandbox"
)

// extensions are what this service does beyond the original's API, by name, for
// clients that need one.
var extensions = []string{"argv", "base64-output", "cost", "events", "exec-stream", "idempotency-key", "job-kill", "job-list", "job-output", "job-signal", "job-stdin", "list-pages", "placement", "ports", "prepull", "pty", "raw-files", "stdin", "tar"}

func (s *Service) root(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, struct {
		Service    string   `json:"service"`
		Version    string   `json:"version"`
		Status     string   `json:"status"`
		Extensions []string `json:"extensions"`
	}{s.set.ServiceName, "0.1.0", "running", extensions})
	return nil
}

func (s *Service) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "healthy"})
	return nil
}

// create starts a sandbox and returns before it is ready. The same id with the same
// spec is the same sandbox; with another spec it is a conflict.
func (s *Service) create(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	spec, err := parseSpec(b, s.set)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	start := s.runtime.Start
	switch {
	case spec.ID != "":
	case key != "":
		spec.ID = keyedSandboxID(owner(r), key)
		// A repeat gets what the first one got, even if that has ended since.
		st, err := s.runtime.Get(r.Context(), spec.ID)
		if err == nil {
			return s.answerCreate(w, st, spec)
		}
		if errors.Is(err, ErrNotFound) {
			start = s.runtime.startNew
		}
	default:
		spec.ID, start = newSandboxID(), s.runtime.startNew
	}
	st, err := start(r.Context(), spec)
	switch {
	case err == nil || errors.Is(err, ErrExists):
		return s.answerCreate(w, st, spec)
	case errors.Is(err, errTaken):
		return fail(http.StatusConflict, "Sandbox id %s is taken", spec.ID)
	case told(err):
		return err
	}
	return away(5, "Service temporarily overloaded, please retry: %v", err)
}

func (s *Service) answerCreate(w http.ResponseWriter, st State, asked sandbox.Spec) error {
	if st.Phase == Ended {
		asked.Env = st.Spec.Env // of one that ended it is not kept everywhere
	}
	if diff := difference(st.Spec, asked); diff != "" {
		return fail(http.StatusConflict, "Sandbox %s exists with another %s", asked.ID, diff)
	}
	v := s.view(st)
	writeJSON(w, http.StatusOK, struct {
		SandboxID    string   `json:"sandbox_id"`
		Namespace    string   `json:"namespace"`
		Image        string   `json:"image"`
		BlockNetwork bool     `json:"block_network"`
		CPU          string   `json:"cpu"`
		Memory       string   `json:"memory"`
		Timeout      float64  `json:"timeout"`
		Status       string   `json:"status"`
		ExpiresAt    *float64 `json:"expires_at,omitempty"`
	}{v.SandboxID, v.Namespace, v.Image, v.BlockNetwork, v.CPU, v.Memory, st.Spec.ReadyTimeout.Seconds(), v.Status, v.ExpiresAt})
	return nil
}

// epoch is t as the original writes times: seconds with microseconds; nil is never.
func epoch(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	f := float64(t.UnixMicro()) / 1e6
	return &f
}

func (s *Service) get(w http.ResponseWriter, r *http.Request) error {
	st, err := s.seen(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	v := s.view(st)
	v.Cost = ptr(s.prices.answer(s.prices.usage(st, time.Time{}, s.now())))
	writeJSON(w, http.StatusOK, v)
	return nil
}

// seen is a sandbox that is or was; one that its user deleted is not found.
func (s *Service) seen(ctx context.Context, id string) (State, error) {
	st, err := s.look(ctx, id)
	if st.Phase == Ended && st.Reason != ReasonDeleted {
		return st, nil
	}
	return st, err
}

func (s *Service) wait(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	timeout, err := querySeconds(r.URL.Query(), "timeout", time.Hour, s.set.MaxTimeout)
	if err != nil {
		return err
	}
	st, err := s.seen(r.Context(), id)
	if err != nil {
		return err
	}
	if st.Phase == Pending {
		ctx, cancel := s.until(r.Context(), timeout)
		defer cancel()
		now, err := s.runtime.Wait(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound): // it was there a moment ago
			st.Phase, st.Reason = Ended, ReasonDeleted
		case err != nil && s.drain.Err() != nil:
			return away(1, "the service is stopping")
		case err != nil && ctx.Err() == nil:
			return err
		default:
			st = now
		}
	}
	v := s.view(st)
	switch {
	case st.Phase == Pending:
		return fail(http.StatusRequestTimeout, "Sandbox %s did not become ready within %gs", id, timeout.Seconds())
	case st.Phase == Ended && st.Reason == ReasonDeleted:
		v.Status, v.StatusMessage = "not_found", "deleted while it was waited for"
	}
	writeJSON(w, http.StatusOK, v)
	return nil
}

// remove ends a sandbox; one that is not there is as good as removed.
func (s *Service) remove(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if sandboxID.MatchString(id) {
		if err := s.runtime.Stop(r.Context(), id, ReasonDeleted); err != nil && !errors.Is(err, ErrNotFound) {
			return away(5, "Sandbox %s could not be deleted: %v", id, err)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Status    string `json:"status"`
		SandboxID string `json:"sandbox_id"`
	}{"deleted", id})
	return nil
}

// heartbeat extends the lease, which the agent holds. On a sandbox made without one
// the first heartbeat starts one, as in the original.
func (s *Service) heartbeat(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	st, err := s.look(r.Context(), id)
	if err != nil {
		return err
	}
	answer := struct {
		Status       string   `json:"status"`
		SandboxID    string   `json:"sandbox_id"`
		LeaseExpires *float64 `json:"lease_expires_at,omitempty"`
	}{Status: "ok", SandboxID: id}
	lease := st.Spec.Lease
	if lease == 0 {
		lease = s.set.HeartbeatLease
	}
	// A lease counts from when the sandbox is ready.
	if lease > 0 && st.Phase == Ready {
		a, err := s.agent(r.Context(), id)
		if err != nil {
			return away(5, "Sandbox %s agent not ready", id)
		}
		held, err := a.lease(r.Context(), lease)
		if err != nil {
			if end := s.endOf(r.Context(), st); end != nil {
				return gone(end.(*ended).State)
			}
			return away(5, "Sandbox %s agent does not answer", id)
		}
		if held.ExpiresUS > 0 {
			answer.LeaseExpires = epoch(time.UnixMicro(held.ExpiresUS))
		}
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
