package scale_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"orchard/agent/wire"
)

// agent answers for one Pod. Its queue is the order of its jobs.
type agent struct {
	farm     *farm
	uid      string
	identity *tls.Config // nil: plain HTTP
	verifier *wire.Verifier
	first    time.Duration // the lease until the first heartbeat
	end      func()        // the lease is over

	mu    sync.Mutex
	lease *time.Timer // nil: none
	until time.Time
	jobs  map[string]*job
	order []string
	last  chan struct{} // closed when the newest job that queues has ended
}

// job is a command and, once done is closed, what it came to.
type job struct {
	mu   sync.Mutex
	wire wire.Job
	done chan struct{}
}

func (j *job) now() wire.Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wire
}

// extend makes the lease last d from now; 0 is no lease.
func (a *agent) extend(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease != nil {
		a.lease.Stop()
		a.lease, a.until = nil, time.Time{}
	}
	if d > 0 {
		a.lease, a.until = time.AfterFunc(d, a.end), time.Now().Add(d)
	}
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/v1/health" {
		answer(w, http.StatusOK, wire.Health{Status: "ok", Protocol: wire.Version})
		return
	}
	if err := a.verifier.Verify(r); err != nil {
		answer(w, http.StatusUnauthorized, wire.Error{Code: wire.CodeUnsigned, Detail: err.Error()})
		return
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/jobs/"), "/")
	switch route := r.Method + " " + r.URL.Path; {
	case route == "POST /v1/jobs":
		a.submit(w, r)
	case route == "GET /v1/jobs":
		answer(w, http.StatusOK, a.list())
	case route == "POST /v1/lease":
		a.heartbeat(w, r)
	case route == "POST /v1/shutdown", verb == "delivered":
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && verb == "" && id != r.URL.Path:
		a.mu.Lock()
		j := a.jobs[id]
		a.mu.Unlock()
		if j == nil {
			answer(w, http.StatusNotFound, wire.Error{Code: wire.CodeNotFound, Detail: "no job " + id})
			return
		}
		await(w, r, j)
	default:
		answer(w, http.StatusNotFound, wire.Error{Code: wire.CodeNotFound, Detail: "this agent has no " + route})
	}
}

func (a *agent) heartbeat(w http.ResponseWriter, r *http.Request) {
	var l wire.Lease
	if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
		answer(w, http.StatusBadRequest, wire.Error{Code: wire.CodeBadRequest, Detail: err.Error()})
		return
	}
	a.farm.beats.Add(1)
	a.extend(time.Duration(l.Seconds * float64(time.Second)))
	a.mu.Lock()
	if !a.until.IsZero() {
		l.ExpiresUS = a.until.UnixMicro()
	}
	a.mu.Unlock()
	answer(w, http.StatusOK, l)
}

func (a *agent) submit(w http.ResponseWriter, r *http.Request) {
	var req wire.ExecRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.ID == "" || req.TimeoutMS <= 0 {
		answer(w, http.StatusBadRequest, wire.Error{Code: wire.CodeBadRequest, Detail: "not a command with an id and a timeout"})
		return
	}
	a.mu.Lock()
	j := a.jobs[req.ID]
	if j == nil {
		j = &job{done: make(chan struct{}), wire: wire.Job{ID: req.ID, Command: req.Shell + strings.Join(req.Argv, " "), State: wire.Queued, CreatedUS: time.Now().UnixMicro()}}
		a.jobs[req.ID], a.order = j, append(a.order, req.ID)
		before := a.last
		if req.Concurrent {
			before = nil
		} else {
			a.last = j.done
		}
		go a.run(j, req, before)
	}
	a.mu.Unlock()
	await(w, r, j)
}

// run is one command, after the one before it.
func (a *agent) run(j *job, req wire.ExecRequest, before <-chan struct{}) {
	if before != nil {
		<-before
	}
	a.farm.slots <- struct{}{}
	defer func() { <-a.farm.slots }()
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(req.TimeoutMS)*time.Millisecond)
	defer stop()
	argv := req.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", req.Shell}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", bytes.NewReader(req.Stdin), &out, &said
	j.mu.Lock()
	j.wire.State, j.wire.StartedUS = wire.Running, time.Now().UnixMicro()
	j.mu.Unlock()
	err := cmd.Run()
	a.farm.ran.Add(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	code, ended := 0, &exec.ExitError{}
	j.wire.State, j.wire.EndedUS = wire.Done, time.Now().UnixMicro()
	switch {
	case ctx.Err() != nil:
		code, j.wire.Reason, j.wire.Error = 124, wire.ReasonTimeout, "the time is over"
	case errors.As(err, &ended):
		code = ended.ExitCode()
	case err != nil:
		code, j.wire.Reason, j.wire.Error = 127, wire.ReasonSpawn, err.Error()
	}
	j.wire.ExitCode = &code
	j.wire.Stdout = wire.Output{Data: out.Bytes(), Bytes: int64(out.Len())}
	j.wire.Stderr = wire.Output{Data: said.Bytes(), Bytes: int64(said.Len())}
	close(j.done)
}

// list is all jobs without their output, oldest first.
func (a *agent) list() []wire.Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	jobs := []wire.Job{}
	for _, id := range a.order {
		j := a.jobs[id].now()
		j.Stdout.Data, j.Stderr.Data = nil, nil
		jobs = append(jobs, j)
	}
	return jobs
}

// await answers with a job once it has ended, or as it is when the time is over.
func await(w http.ResponseWriter, r *http.Request, j *job) {
	seconds, _ := strconv.ParseFloat(r.URL.Query().Get("wait"), 64)
	select {
	case <-j.done:
	case <-r.Context().Done():
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	answer(w, http.StatusOK, j.now())
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone when this fails
}
