package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"orchard/internal/seal"
)

// eventAnswer is something that happened to a sandbox.
type eventAnswer struct {
	At      *float64 `json:"at"`
	Type    string   `json:"type"`
	Message string   `json:"message"`
	Count   int      `json:"count"`
}

// eventPoll is how often a follower's sandbox is looked at, eventPing how often a
// follower hears that somebody is there.
const (
	eventPoll = time.Second
	eventPing = 15 * time.Second
)

// events is what happened to a sandbox, oldest first: the steps that every runtime has,
// and what this one tells besides. With follow it goes on as server-sent events until
// the sandbox has ended.
func (s *Service) events(w http.ResponseWriter, r *http.Request) error {
	st, all, err := s.happened(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if text := r.URL.Query().Get("follow"); text != "" {
		follow, ok := bools[text]
		if !ok {
			return invalidField("query", "follow", "type_error.bool", "value could not be parsed to a boolean")
		}
		if follow {
			return s.followEvents(w, r, st, all)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		SandboxID string        `json:"sandbox_id"`
		Events    []eventAnswer `json:"events"`
	}{st.Spec.ID, all})
	return nil
}

// happened is a sandbox and what happened to it so far.
func (s *Service) happened(ctx context.Context, id string) (State, []eventAnswer, error) {
	st, err := s.seen(ctx, id)
	if err != nil {
		return st, nil, err
	}
	told, err := s.runtime.Events(ctx, st.Spec.ID)
	if err != nil {
		return st, nil, away(5, "events of sandbox %s could not be had: %v", st.Spec.ID, err)
	}
	all := []eventAnswer{}
	for _, e := range merged(st, told) {
		all = append(all, eventAnswer{epoch(e.At), e.Type, e.Message, max(e.Count, 1)})
	}
	return st, all, nil
}

// followEvents sends all and then what is new, each once, until the sandbox has ended or
// is gone, the client leaves, or the service drains.
func (s *Service) followEvents(w http.ResponseWriter, r *http.Request, st State, all []eventAnswer) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	sent, uid, spoken := map[string]bool{}, st.UID, time.Now()
	for {
		out := ""
		for _, e := range all {
			data, err := seal.JSON(e)
			if err != nil {
				return err
			}
			if !sent[string(data)] {
				sent[string(data)] = true
				out += "event: " + eventName(e.Type) + "\ndata: " + string(data) + "\n\n"
			}
		}
		if out == "" && time.Since(spoken) >= eventPing {
			out = ": ping\n\n"
		}
		if out != "" {
			spoken = time.Now()
			if _, err := io.WriteString(w, out); err != nil || http.NewResponseController(w).Flush() != nil {
				return nil
			}
		}
		if st.Phase == Ended {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.drain.Done():
			return nil
		case <-time.After(eventPoll):
		}
		now, more, err := s.happened(r.Context(), st.Spec.ID)
		var f *failure
		switch {
		case err == nil && now.UID == uid:
			st, all = now, more
		case err == nil, errors.As(err, &f) && f.gone:
			return nil // it was deleted, or its id is another's by now
		} // else it is not known now: it is asked again
	}
}

// eventName is a type that a runtime chose, on one line.
func eventName(kind string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '_'
		}
		return c
	}, kind)
}

// merged is st's own steps among what its runtime told. A step that the runtime told by
// the same name is the runtime's to tell.
func merged(st State, told []Event) []Event {
	all := slices.Clone(told)
	step := func(at time.Time, kind, message string) {
		known := slices.ContainsFunc(told, func(e Event) bool { return e.Type == kind })
		if !at.IsZero() && !known {
			all = append(all, Event{at, kind, message, 1})
		}
	}
	step(st.Created, "created", "the sandbox was accepted")
	step(st.Scheduled, "scheduled", "a machine holds what it asked for")
	step(st.Ready, "ready", "commands run")
	if st.Phase == Ended {
		kind := st.Reason
		if kind == "" {
			kind = "ended"
		}
		step(st.Ended, kind, endText(st))
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}
