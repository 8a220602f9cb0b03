package control

import (
	"context"
	"testing"
	"time"
)

// Nothing in the service is shorter than a request's own timeout, and it keeps idle
// connections longer than clients do.
func TestServerHasNoShortTimeout(t *testing.T) {
	t.Parallel()
	_, s := newMemory(t)
	server := s.server()
	if server.WriteTimeout != 0 || server.ReadTimeout != 0 {
		t.Errorf("a request is cut off after %v, an answer after %v", server.ReadTimeout, server.WriteTimeout)
	}
	if server.IdleTimeout <= 120*time.Second {
		t.Errorf("idle connections are closed after %v, before clients do", server.IdleTimeout)
	}
	if answerGrace >= 60*time.Second {
		t.Errorf("an exec may be answered %v late; the original's client gives up at 60 s", answerGrace)
	}
	st := State{UID: "u"}
	st.Spec.ID = "a"
	if a, err := s.agent(context.WithValue(t.Context(), callerKey{}, caller{admin: true}), "a"); err == nil && a.http.Timeout != 0 {
		t.Errorf("an agent's answer is cut off after %v", a.http.Timeout)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	shed := 0
	s := newSlots("things", 2, func(string) { shed++ })
	s.wait = time.Minute
	one, err := s.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inLine := make(chan error, 1)
	go func() {
		release, err := s.take(t.Context())
		if err == nil {
			release()
		}
		inLine <- err
	}()
	for s.waiting.Load() == 0 {
		select {
		case err := <-inLine:
			t.Fatalf("nobody stood in line: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	// The line is full: this one does not wait.
	began := time.Now()
	if _, err := s.take(t.Context()); err == nil || shed != 1 || time.Since(began) > 30*time.Second {
		t.Errorf("beyond the line: %v, %d shed", err, shed)
	}
	one()
	if err := <-inLine; err != nil {
		t.Errorf("one in line when a slot is free: %v", err)
	}
	two()
	for range 2 {
		if _, err := s.take(t.Context()); err != nil {
			t.Errorf("a slot that was given back: %v", err)
		}
	}
	if free := newSlots("x", 0, nil); free.taken != nil {
		t.Error("no bound is one")
	}
}

// A sandbox counts until the runtime lists it, and not twice then; a list that lags
// behind for ever does not count it for ever.
func TestQuotaOfLaggingList(t *testing.T) {
	t.Parallel()
	now, two := time.Now(), 2
	m := &memory{}
	q := newQuotas(m, func() time.Time { return now }, func(string, string) {})
	c := caller{name: "a", quota: quota{sandboxes: &two}}
	create := func(id string) error {
		spec := State{UID: "uid-" + id}
		spec.Spec.ID, spec.Spec.Owner = id, "a"
		started, err := q.admit(t.Context(), c, spec.Spec)
		if err == nil {
			started(spec, nil)
		}
		return err
	}
	if create("one") != nil || create("two") != nil || create("three") == nil {
		t.Error("sandboxes that are not listed yet do not count once each")
	}
	listed := State{UID: "uid-one", Phase: Ended}
	listed.Spec.ID, listed.Spec.Owner = "one", "a"
	m.states = []State{listed}
	if err := create("three"); err != nil {
		t.Errorf("one is listed, and has ended: %v", err)
	}
	if create("four") == nil {
		t.Error("two and three do not count")
	}
	now = now.Add(lag + time.Second)
	if err := create("four"); err != nil {
		t.Errorf("what was never listed counts for ever: %v", err)
	}
}
