package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"orchard/agent/wire"
)

// silence is how long an agent may say nothing on a stream: it has a line every few seconds.
const silence = 20 * time.Second

// streamed reports whether the caller wants a job as server-sent events.
func streamed(r *http.Request) bool {
	return r.URL.Query().Get("stream") == "1" || strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// place is how much of each output a client has. As an event's id it is "STDOUT:STDERR".
type place struct{ stdout, stderr int64 }

func (p place) String() string { return fmt.Sprintf("%d:%d", p.stdout, p.stderr) }

func parsePlace(text string) (p place, ok bool) {
	out, errs, ok := strings.Cut(text, ":")
	if !ok {
		return p, false
	}
	p.stdout, ok = offset(out)
	if !ok {
		return p, false
	}
	p.stderr, ok = offset(errs)
	return p, ok
}

func offset(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
}

// placeOf is where a request wants a stream to go on: as its query says, else after the
// last event that an EventSource has seen.
func placeOf(r *http.Request) (p place, err error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var ok bool
		if p, ok = parsePlace(id); !ok {
			return p, invalidField("header", "Last-Event-ID", "value_error", "must be the id of an event of this stream, such as 10:0")
		}
	}
	for name, into := range map[string]*int64{"stdout": &p.stdout, "stderr": &p.stderr} {
		if text := r.URL.Query().Get(name); text != "" {
			var ok bool
			if *into, ok = offset(text); !ok {
				return p, invalidField("query", name, "type_error.integer", "%s must be a whole number of bytes from the start", name)
			}
		}
	}
	return p, nil
}

// streamJob follows a job from a place in its output on.
func (s *Service) streamJob(w http.ResponseWriter, r *http.Request) error {
	at, err := placeOf(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	st, err := s.owning(r.Context(), id)
	out := &events{w: w, at: at}
	var end *ended
	switch {
	case errors.As(err, &end):
		return out.lost(id, end.State)
	case err != nil:
		return err
	}
	return s.stream(r.Context(), st, id, out)
}

// streamExec answers an exec with the stream of its job. The client has its answer with
// the first event: from then on it can come back for the rest.
func (s *Service) streamExec(w http.ResponseWriter, r *http.Request, st State, job wire.Job) error {
	out := &events{w: w}
	if err := out.begin(job); err != nil {
		return nil
	}
	if job.Reason == reasonLost {
		return out.exit(job)
	}
	if job.AckPending {
		s.delivering(r.Context(), st, job.ID)(true)
	}
	return s.stream(r.Context(), st, job.ID, out)
}

// stream sends a job's events until it has ended, through broken connections to its
// agent. When the service drains, or the agent is silent for too long, the answer ends
// without an exit event: the job goes on, and so may the client, anywhere.
func (s *Service) stream(ctx context.Context, st State, id string, out *events) error {
	pause, silent := 20*time.Millisecond, time.Time{}
	for {
		began := time.Now()
		moved, err := s.streamOnce(ctx, st, id, out)
		var refusal *agentError
		switch {
		case err == nil || out.dead:
			return nil
		case errors.As(err, &refusal) && !out.begun:
			return fromAgent(err, "Job "+id+" not found")
		case errors.As(err, &refusal):
			return nil // it was dropped: no more is to be had
		case ctx.Err() != nil:
			return ctx.Err()
		case s.drain.Err() != nil:
			if !out.begun {
				return away(5, "the service is stopping")
			}
			return nil
		}
		var end *ended
		if errors.As(s.endOf(ctx, st), &end) {
			return out.lost(id, end.State)
		}
		if moved {
			pause, silent = 20*time.Millisecond, time.Time{}
		} else if silent.IsZero() {
			silent = began
		} else if time.Since(silent) > s.set.RetryWindow {
			if !out.begun {
				return away(5, "Sandbox %s agent does not answer", st.Spec.ID)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// streamOnce follows one stream of the agent; nil when the job has ended and the client
// knows. moved says that it came at least so far as to say something.
func (s *Service) streamOnce(ctx context.Context, st State, id string, out *events) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.drain, cancel)
	defer stop()
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()
	a, err := s.agent(ctx, st.Spec.ID)
	if err != nil {
		return false, err
	}
	resp, err := a.do(ctx, http.MethodGet, "/v1/jobs/"+id+"/stream", url.Values{
		"stdout": {strconv.FormatInt(out.at.stdout, 10)}, "stderr": {strconv.FormatInt(out.at.stderr, 10)},
	}, nil, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	from := bufio.NewReaderSize(resp.Body, 64<<10)
	lines := json.NewDecoder(from)
	for first := true; ; first = false {
		var e wire.StreamEvent
		if err := lines.Decode(&e); err != nil {
			return moved, fmt.Errorf("read the stream of job %s: %w", id, err)
		}
		watch.Reset(silence)
		moved = true
		switch {
		case e.Job != nil && first:
			err = out.begin(*e.Job)
		case e.Job != nil && e.Job.Reason == wire.ReasonEnded:
			return moved, errors.New(e.Job.Error) // lost with the sandbox: the runtime says why
		case e.Job != nil:
			s.metrics.ran(*e.Job)
			return moved, out.exit(*e.Job)
		case e.Stream != "":
			err = out.output(e)
		default:
			err = out.ping()
		}
		if err != nil {
			return moved, err
		}
	}
}
