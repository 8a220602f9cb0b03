package control

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// shedWait is how long a request may stand in line for a slot.
const shedWait = 2 * time.Second

// slots bound how many requests of one kind are worked on. A few more stand in line for
// a moment, so that a burst passes; what goes beyond is turned away at once, before its
// body is read, while the service can still say so.
type slots struct {
	what    string
	taken   chan struct{} // nil is no bound
	waiting atomic.Int64
	line    int64         // how many may wait
	wait    time.Duration // and for how long
	shed    func(what string)
}

func newSlots(what string, most int, shed func(what string)) *slots {
	s := &slots{what: what, line: int64(max(most/4, 1)), wait: shedWait, shed: shed}
	if most > 0 {
		s.taken = make(chan struct{}, most)
	}
	return s
}

// take is a slot, or the failure that sends the client away for a while.
func (s *slots) take(ctx context.Context) (release func(), err error) {
	if s.taken == nil {
		return func() {}, nil
	}
	release = func() { <-s.taken }
	select {
	case s.taken <- struct{}{}:
		return release, nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) <= s.line {
		t := time.NewTimer(s.wait)
		defer t.Stop()
		select {
		case s.taken <- struct{}{}:
			return release, nil
		case <-t.C:
		case <-ctx.Done():
		}
	}
	s.shed(s.what)
	// Not all at the same second.
	return nil, away(1+rand.IntN(5), "Service temporarily overloaded, please retry: too many %s at a time", s.what)
}

// creating is h within the bound of sandboxes that are being made.
func (s *Service) creating(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		release, err := s.creates.take(r.Context())
		if err != nil {
			return err
		}
		defer release()
		return h(w, r)
	}
}

// running is h within the bound of commands, the service's and the key's.
func (s *Service) running(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, _ := callerOf(r.Context())
		done, err := s.quotas.exec(user)
		if err != nil {
			return err
		}
		defer done()
		release, err := s.execs.take(r.Context())
		if err != nil {
			return err
		}
		defer release()
		return h(w, r)
	}
}
