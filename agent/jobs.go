package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/agent/wire"
)

// longestWait bounds one long poll; its client asks again.
const longestWait = 24 * time.Hour

func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	wait, err := waitOf(r.URL.Query())
	if err != nil {
		return err
	}
	var req wire.ExecRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		return badRequest("the body is not a command: %v", err)
	}
	if err := check(&req); err != nil {
		return badRequest("%v", err)
	}
	j, attached, err := s.jobs.submit(r.Context(), &req)
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	await(r.Context(), j, wait)
	return s.answerJob(w, j, attached)
}

func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	wait, err := waitOf(r.URL.Query())
	if err != nil {
		return err
	}
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	await(r.Context(), j, wait)
	return s.answerJob(w, j, false)
}

// kill answers when the job has ended. What an ended one left in the background dies too.
func (s *Server) kill(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	if j.ended() {
		patience, cancel := context.WithTimeout(r.Context(), killPatience)
		defer cancel()
		j.process.kill(patience, 0)
	}
	s.jobs.kill(j)
	await(r.Context(), j, 2*killPatience)
	return s.answerJob(w, j, false)
}

func (s *Server) listJobs(w http.ResponseWriter, _ *http.Request) error {
	jobs := []wire.Job{}
	for _, j := range s.jobs.list() {
		jobs = append(jobs, j.snapshot())
	}
	return writeJSON(w, http.StatusOK, jobs)
}

func (s *Server) answerJob(w http.ResponseWriter, j *job, attached bool) error {
	w.Header().Set("Content-Type", "application/json")
	return writeJob(w, j, attached)
}

// offsetOf is where a request begins in a stream of bytes.
func offsetOf(query url.Values, absent int64) (int64, error) {
	text := query.Get("offset")
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("offset: %q is not a number of bytes", text)
	}
	return n, nil
}

// output sends what is there of a stream from offset on, also while the job runs. The
// middle of a very long stream may be gone: X-Output-Offset says where the bytes begin,
// and they end where the middle does.
func (s *Server) output(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	offset, err := offsetOf(query, 0)
	if err != nil {
		return err
	}
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	var from *spool
	switch stream := query.Get("stream"); stream {
	case "stdout":
		from = j.stdout
	case "stderr":
		from = j.stderr
	default:
		return badRequest("stream: %q is neither stdout nor stderr", stream)
	}
	total, head, tail := from.kept()
	end := total
	switch {
	case offset >= total:
		offset = total
	case offset < head:
		end = head
	default:
		offset = max(offset, total-tail)
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Output-Offset", strconv.FormatInt(offset, 10))
	header.Set("X-Output-Bytes", strconv.FormatInt(total, 10))
	header.Set("Content-Length", strconv.FormatInt(end-offset, 10))
	w.WriteHeader(http.StatusOK)
	_, err = io.CopyN(w, io.NewSectionReader(from, offset, end-offset), end-offset)
	if err != nil {
		return fmt.Errorf("send the output of job %s: %w", r.PathValue("id"), err)
	}
	return nil
}

// await returns when j has ended, wait is over or ctx is done.
func await(ctx context.Context, j *job, wait time.Duration) {
	if wait == 0 {
		return
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-j.done:
	case <-over.C:
	case <-ctx.Done():
	}
}

// waitOf is the query's wait, 0 when it has none.
func waitOf(query url.Values) (time.Duration, error) {
	text := query.Get("wait")
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 {
		return 0, badRequest("wait: %q is not a number of seconds", text)
	}
	if seconds > longestWait.Seconds() {
		return longestWait, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
