package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"orchard/agent/wire"
)

// slice is the longest that one request to an agent waits, so that an agent whose
// machine vanished without a word is noticed.
const slice = 30 * time.Second

// agent is the agent of a ready sandbox.
func (s *Service) agent(ctx context.Context, id string) (agentClient, error) {
	rt, base, err := s.runtime.Agent(ctx, id)
	if err != nil {
		return agentClient{}, err
	}
	return agentClient{&http.Client{Transport: watched{rt, s.metrics}}, base}, nil
}

// look is a sandbox that has not ended; the error is a failure otherwise.
func (s *Service) look(ctx context.Context, id string) (State, error) {
	if !sandboxID.MatchString(id) {
		return State{}, unknownSandbox(id)
	}
	st, err := s.runtime.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return st, unknownSandbox(id)
	case err != nil:
		return st, unasked(id, err)
	case st.Phase == Ended:
		return st, gone(st)
	}
	return st, nil
}

// unasked is for what the runtime could not be asked: it is neither there nor not there.
func unasked(id string, err error) error {
	return away(5, "Sandbox %s could not be looked at: %v", id, err)
}

// ready is a sandbox whose agent answers, and that agent. It waits a while for one
// that is still starting, then asks the client to come again: a 503 makes the
// original's client do so, where the original's own 404 made it give up.
func (s *Service) ready(ctx context.Context, id string) (State, agentClient, error) {
	st, err := s.look(ctx, id)
	if err != nil {
		return st, agentClient{}, err
	}
	if st.Phase == Pending {
		wait, cancel := s.until(ctx, s.set.ReadyWait)
		defer cancel()
		if st, err = s.runtime.Wait(wait, id); err == nil && st.Phase == Ended {
			return st, agentClient{}, gone(st)
		}
		if err != nil || st.Phase != Ready {
			return st, agentClient{}, away(5, "Sandbox %s is not ready", id)
		}
	}
	a, err := s.agent(ctx, id)
	if err == nil {
		return st, a, nil
	}
	// It may have ended since.
	if st, lookErr := s.look(ctx, id); lookErr != nil {
		return st, a, lookErr
	}
	return st, a, away(5, "Sandbox %s agent not ready", id)
}

// until is ctx, over after d and when the service drains.
func (s *Service) until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(s.drain, cancel)
	return ctx, func() { stop(); cancel() }
}

// ended says that a sandbox ended, or was replaced, while a job of it was followed.
type ended struct{ State }

func (e *ended) Error() string { return "sandbox ended: " + endText(e.State) }

// follow asks a job's agent until the job has ended or deadline is there, through
// broken connections: first submits (or asks), anything after asks by the id that
// first got. It returns the job as it was last seen, *ended when the sandbox went
// away, *agentError when the agent refused.
func (s *Service) follow(ctx context.Context, st State, deadline time.Time, first func(context.Context, agentClient, time.Duration) (wire.Job, error)) (wire.Job, error) {
	ask := first
	var silent time.Time // since when the agent does not answer
	pause := 20 * time.Millisecond
	for {
		wait := min(time.Until(deadline), slice)
		if s.drain.Err() != nil {
			wait = 0
		}
		began := time.Now()
		job, err := s.askOnce(ctx, st, wait, ask)
		var refusal *agentError
		switch {
		case err == nil:
			if job.State == wire.Done || job.State == wire.Failed || wait <= 0 || !time.Now().Before(deadline) {
				return job, nil
			}
			id := job.ID
			ask = func(ctx context.Context, a agentClient, wait time.Duration) (wire.Job, error) {
				return a.job(ctx, id, wait)
			}
			silent = time.Time{}
			if time.Since(began) > wait/2 { // it did wait: ask again at once
				pause = 20 * time.Millisecond
				continue
			}
		case errors.As(err, &refusal) || ctx.Err() != nil:
			return job, err
		default:
			if end := s.endOf(ctx, st); end != nil {
				return job, end
			}
			if silent.IsZero() {
				silent = began
			}
			if s.drain.Err() == nil && time.Since(silent) > s.set.RetryWindow {
				return job, away(5, "Sandbox %s agent does not answer", st.Spec.ID)
			}
			if s.drain.Err() != nil && pause > 500*time.Millisecond {
				return job, away(5, "the service is stopping")
			}
		}
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// askOnce is one request to the agent, cut short when the service begins to drain.
func (s *Service) askOnce(ctx context.Context, st State, wait time.Duration, ask func(context.Context, agentClient, time.Duration) (wire.Job, error)) (wire.Job, error) {
	if wait > 0 {
		limited, cancel := s.until(ctx, wait+answerTime)
		defer cancel()
		ctx = limited
	}
	a, err := s.agent(ctx, st.Spec.ID)
	if err != nil {
		return wire.Job{}, err
	}
	job, err := ask(ctx, a, max(wait, 0))
	if err == nil && job.Reason == wire.ReasonEnded {
		err = errors.New(job.Error) // lost with the sandbox: the runtime says why
	}
	return job, err
}

// endOf is *ended when st's sandbox has ended or is another one by now, else nil.
func (s *Service) endOf(ctx context.Context, st State) error {
	now, err := s.runtime.Get(ctx, st.Spec.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		st.Phase, st.Reason, st.Message = Ended, ReasonLost, "it vanished"
		return &ended{st}
	case err != nil:
		return nil // not known: the caller asks again
	case now.UID != st.UID:
		st.Phase, st.Reason, st.Message = Ended, ReasonReplaced, "another sandbox has its id by now"
		return &ended{st}
	case now.Phase == Ended:
		return &ended{now}
	}
	return nil
}
