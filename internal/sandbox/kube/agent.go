package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox/control"
)

const (
	firstPause  = 10 * time.Millisecond
	longPause   = 500 * time.Millisecond
	probeTime   = time.Second
	askTime     = 250 * time.Millisecond
	goodbyeTime = time.Second
	mostJobs    = 100 // that a tombstone names
)

// Agent implements control.Runtime.
func (r *Runtime) Agent(ctx context.Context, id string) (http.RoundTripper, string, error) {
	e, _, err := r.find(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if e == nil || r.read(e).Phase == control.Pending && !r.ask(ctx, e) || r.read(e).Phase != control.Ready {
		return nil, "", fmt.Errorf("sandbox %s: %w", id, control.ErrNotReady)
	}
	return r.signed(e), agentURL(e), nil
}

// errNetworkOpen is an agent's that runs nothing because its network is not closed yet.
var errNetworkOpen = errors.New("the network of the sandbox is not closed yet")

func (r *Runtime) signed(e *entry) http.RoundTripper {
	return &wire.Transport{Base: r.http, Key: r.key, UID: e.uid}
}

// agentURL says by its scheme whether the agent of e proves who it is.
func agentURL(e *entry) string {
	if e.agent == "" {
		return "http://" + e.uid
	}
	return "https://" + e.uid
}

// probe asks the agent of e until it answers, at once whenever the Pod changes.
func (r *Runtime) probe(e *entry) {
	pause := firstPause
	for {
		r.mu.Lock()
		changed, done := e.changed, e.over() || !e.seen.ready.IsZero()
		if done {
			e.probing = false
		}
		r.mu.Unlock()
		if done {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, probeTime)
		answered := r.answers(ctx, e)
		cancel()
		if answered {
			continue
		}
		select {
		case <-r.ctx.Done():
			return
		case <-changed:
			pause = firstPause
		case <-time.After(pause):
			pause = min(pause*3/2, longPause)
		}
	}
}

// ask is one more look at the agent of a sandbox that is not ready here, for a caller who may
// know from another replica that it is.
func (r *Runtime) ask(ctx context.Context, e *entry) bool {
	r.mu.Lock()
	reachable := !e.over() && e.address() != ""
	r.mu.Unlock()
	if !reachable {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return r.answers(ctx, e)
}

// answers reports whether the agent answers what is signed for its UID; then e is ready.
func (r *Runtime) answers(ctx context.Context, e *entry) bool {
	var err error
	if e.claimed.IsZero() {
		err = r.call(ctx, e, http.MethodGet, "/v1/jobs", nil, nil)
	} else { // it is to know whose it is before anything runs in it; that it knows already is as good
		err = r.call(ctx, e, http.MethodPost, "/v1/claim", wire.Claim{
			Sandbox: e.id, Env: e.spec.Env, Cwd: e.spec.Workdir, LeaseSeconds: e.spec.Lease.Seconds(),
		}, nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.seen.open = errors.Is(err, errNetworkOpen)
	if err != nil {
		return false
	}
	if e.seen.ready.IsZero() && !e.over() {
		e.seen.ready = time.Now()
		// One that this replica found running was ready before.
		if c := condition(e.pod, "Ready"); podReady(e.pod) && c.LastTransitionTime.Time.Before(e.since) {
			e.seen.ready = c.LastTransitionTime.Time
			if e.claimed.After(e.seen.ready) {
				e.seen.ready = e.claimed
			}
		}
		e.wake()
	}
	return true
}

// openJobs is the ids of the jobs in e that have not ended, as far as its agent says.
func (r *Runtime) openJobs(ctx context.Context, e *entry) []string {
	if r.read(e).Phase != control.Ready {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	var jobs []wire.Job
	if r.call(ctx, e, http.MethodGet, "/v1/jobs", nil, &jobs) != nil {
		return nil
	}
	var open []string
	for _, j := range jobs {
		if (j.State == wire.Queued || j.State == wire.Running) && len(open) < mostJobs {
			open = append(open, j.ID)
		}
	}
	return open
}

// shutdown lets the agent end everything at once, which the kubelet takes a second for.
// Nothing depends on it.
func (r *Runtime) shutdown(ctx context.Context, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	_ = r.call(ctx, e, http.MethodPost, "/v1/shutdown", nil, nil)
}

func (r *Runtime) call(ctx context.Context, e *entry, method, path string, send, into any) error {
	var body []byte
	if send != nil {
		var err error
		if body, err = json.Marshal(send); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, agentURL(e)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.signed(e).RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		var said wire.Error
		if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&said) == nil && said.Code == wire.CodeNetworkOpen {
			return errNetworkOpen
		}
		return fmt.Errorf("the agent answered %s", resp.Status)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 16<<20))
		return err
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(into)
}
