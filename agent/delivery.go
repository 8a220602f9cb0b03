package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// deliveryTime is how long an equal request waits for a delivery that is under way. It is
// over in an instant: the controller ends it well, or dies and breaks the connection.
const deliveryTime = 15 * time.Second

// delivered is open while a controller hands a job's answer to its client: it begins before
// the client can have the last byte, and its body ends well right after that was sent. A
// body that ends otherwise is a delivery of which nobody knows, so the job stays
// undelivered: a client without an answer comes again, one with an answer mostly asks
// for something else.
func (s *Server) delivered(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	end := j.beginDelivery()
	well := false
	defer func() { end(well) }()
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		return fmt.Errorf("answer before the end of the request: %w", err)
	}
	w.WriteHeader(http.StatusOK)
	if err := rc.Flush(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return fmt.Errorf("delivery of job %s: %w", j.view.ID, err)
	}
	well = true
	return nil
}

// beginDelivery marks that a delivery is under way; end says how it ended.
func (j *job) beginDelivery() (end func(well bool)) {
	over := make(chan struct{})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deliveries = append(j.deliveries, over)
	return func(well bool) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.delivered = j.delivered || well
		j.deliveries = slices.DeleteFunc(j.deliveries, func(other chan struct{}) bool { return other == over })
		close(over)
	}
}

// underWay is closed at the end of the newest delivery; nil when none is under way.
func (j *job) underWay() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.deliveries); n > 0 {
		return j.deliveries[n-1]
	}
	return nil
}

// awaitDelivery returns when no delivery is under way of the job that a request of that name may
// be a repeat of, so that it is known whether it is one.
func (t *table) awaitDelivery(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	for {
		t.mu.Lock()
		j := t.dedup[name]
		t.mu.Unlock()
		if j == nil {
			return
		}
		over := j.underWay()
		if over == nil {
			return
		}
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}
