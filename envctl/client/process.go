package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"orchard/internal/sandbox/httpclient/rest"
)

// Signal sends "INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2", "STOP" or "CONT" to
// the job's process group.
func (j *Job) Signal(ctx context.Context, name string) error {
	return j.client.call(ctx, "signal job "+j.id, rest.Request{
		Method: http.MethodPost, Path: "/jobs/" + escape(j.id) + "/signal", Body: map[string]string{"sig": name},
	})
}

// inputBlock is how much of a job's input is sent at a time.
const inputBlock = 64 << 10

// Feed copies r to the standard input of a job that was started with StdinOpen, as it
// comes, and closes it at r's end. Each byte arrives once, however often connections
// break. It is no error for the job to end, or to close its input, before r does.
func (j *Job) Feed(ctx context.Context, r io.Reader) error {
	block, offset := make([]byte, inputBlock), int64(0)
	for {
		n, readErr := r.Read(block)
		if n > 0 {
			took, err := j.input(ctx, block[:n], offset, false)
			if err != nil || !took {
				return err
			}
			offset += int64(n)
		}
		switch {
		case readErr == io.EOF:
			_, err := j.input(ctx, nil, offset, true)
			return err
		case readErr != nil:
			return readErr
		}
	}
}

// input sends one block; took is false when the job reads no more.
func (j *Job) input(ctx context.Context, data []byte, offset int64, last bool) (took bool, err error) {
	q := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if last {
		q.Set("close", "1")
	}
	for {
		err = j.client.rest.Persist(ctx, func() error {
			resp, err := j.client.rest.Send(ctx, http.MethodPost, "/jobs/"+escape(j.id)+"/stdin", q, bytes.NewReader(data), nil)
			if err == nil {
				resp.Body.Close()
			}
			return err
		})
		var e *rest.Error
		switch {
		case err == nil:
			return true, nil
		case !errors.As(err, &e):
			return false, explain("stdin of job "+j.id, err)
		case e.Status == http.StatusRequestTimeout: // the job takes its time
			continue
		case e.Status == http.StatusConflict:
			return false, nil
		}
		return false, explain("stdin of job "+j.id, err)
	}
}

// Jobs are the jobs that the sandbox can still tell about, oldest first, without output.
func (s *Sandbox) Jobs(ctx context.Context) ([]JobInfo, error) {
	var a struct {
		Jobs []rest.Job `json:"jobs"`
	}
	err := s.client.call(ctx, "jobs of sandbox "+s.id, rest.Request{Method: http.MethodGet, Path: s.path("/jobs"), Out: &a})
	jobs := make([]JobInfo, len(a.Jobs))
	for i, j := range a.Jobs {
		jobs[i] = jobOf(j)
	}
	return jobs, err
}
