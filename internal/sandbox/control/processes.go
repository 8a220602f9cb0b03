package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"orchard/agent/wire"
)

// jobStates are what a list of jobs can be filtered by.
var jobStates = []string{wire.Queued, wire.Running, statusSucceeded, statusFailed}

// listJobs is the jobs that a sandbox can still tell about, oldest first, without output.
func (s *Service) listJobs(w http.ResponseWriter, r *http.Request) error {
	state := r.URL.Query().Get("state")
	if state != "" && !slices.Contains(jobStates, state) {
		return invalidField("query", "state", "value_error", "state must be one of %v", jobStates)
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	var all []wire.Job
	if err := a.call(r.Context(), answerTime, http.MethodGet, "/v1/jobs", nil, nil, &all); err != nil {
		return s.agentFault(r.Context(), st, err, "Sandbox "+st.Spec.ID+" not found")
	}
	jobs := []jobAnswer{}
	for _, job := range all {
		if v := bare(job); state == "" || v.Status == state {
			jobs = append(jobs, v)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Jobs []jobAnswer `json:"jobs"`
	}{jobs})
	return nil
}

// jobAgent is the agent of a job whose sandbox has not ended.
func (s *Service) jobAgent(r *http.Request) (State, agentClient, error) {
	st, err := s.owning(r.Context(), r.PathValue("id"))
	var end *ended
	if errors.As(err, &end) {
		return st, agentClient{}, gone(end.State)
	}
	if err != nil {
		return st, agentClient{}, err
	}
	a, err := s.agent(r.Context(), st.Spec.ID)
	if err != nil {
		return st, a, away(5, "Sandbox %s agent not ready", st.Spec.ID)
	}
	return st, a, nil
}

// jobStdin passes the request's body to a job that was started with stdin_open.
func (s *Service) jobStdin(w http.ResponseWriter, r *http.Request) error {
	to := url.Values{}
	q := r.URL.Query()
	if text := q.Get("offset"); text != "" {
		if _, ok := offset(text); !ok {
			return invalidField("query", "offset", "type_error.integer", "offset must be a whole number of bytes from the start")
		}
		to.Set("offset", text)
	}
	if text := q.Get("close"); text != "" {
		last, ok := bools[text]
		if !ok {
			return invalidField("query", "close", "type_error.bool", "value could not be parsed to a boolean")
		}
		if last {
			to.Set("close", "1")
		}
	}
	st, a, err := s.jobAgent(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	resp, err := a.do(r.Context(), http.MethodPut, "/v1/jobs/"+id+"/stdin", to, r.Body, func(out *http.Request) {
		if out.ContentLength = r.ContentLength; out.ContentLength == 0 {
			out.Body = http.NoBody
		}
	})
	if err != nil {
		return s.agentFault(r.Context(), st, err, "Job "+id+" not found")
	}
	defer resp.Body.Close()
	var in wire.Input
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil {
		return fmt.Errorf("read agent's answer to the stdin of job %s: %w", id, err)
	}
	writeJSON(w, http.StatusOK, in)
	return nil
}

// jobSignal sends a signal to the job's own process group.
func (s *Service) jobSignal(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	b.required("sig")
	sig := b.text("sig")
	if err := b.err(); err != nil {
		return err
	}
	st, a, err := s.jobAgent(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if err := a.call(r.Context(), answerTime, http.MethodPost, "/v1/jobs/"+id+"/signal", nil, wire.Signal{Sig: sig}, nil); err != nil {
		return s.agentFault(r.Context(), st, err, "Job "+id+" not found")
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		JobID  string `json:"job_id"`
	}{"signalled", id})
	return nil
}

// longest is the most that a command may ask for: one that nobody waits for may run for
// as long as its sandbox lives.
func (s *Service) longest(wait time.Duration, st State) time.Duration {
	if wait > 0 {
		return s.set.MaxTimeout
	}
	return min(max(s.set.MaxTimeout, st.Spec.Lifetime), maxDuration)
}
