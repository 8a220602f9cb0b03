package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/agent/wire"
)

// answerTime is how long an agent may take to answer what needs no waiting.
const answerTime = 15 * time.Second

// agentClient talks to one sandbox's agent. Its errors are *agentError when the agent
// refused, anything else when nobody knows what the agent did.
type agentClient struct {
	http *http.Client
	base string
}

// agentError is an agent's refusal.
type agentError struct {
	status int
	wire   wire.Error
}

func (e *agentError) Error() string {
	return fmt.Sprintf("agent answered %d: %s", e.status, e.wire.Detail)
}

// do sends a request and gives the answer's body to the caller, who closes it.
func (a agentClient) do(ctx context.Context, method, path string, q url.Values, body io.Reader, edit func(*http.Request)) (*http.Response, error) {
	target := a.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("ask agent: %w", err)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask agent: %w", err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	refusal := &agentError{status: resp.StatusCode}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read agent's error %d: %w", resp.StatusCode, err)
	}
	if json.Unmarshal(raw, &refusal.wire) != nil || refusal.wire.Detail == "" {
		refusal.wire.Detail = fmt.Sprintf("agent answered %d: %.200q", resp.StatusCode, raw)
	}
	return nil, refusal
}

// call is do with JSON both ways, within limit.
func (a agentClient) call(ctx context.Context, limit time.Duration, method, path string, q url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode %T for agent: %w", in, err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := a.do(ctx, method, path, q, body, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read agent's answer to %s %s: %w", method, path, err)
	}
	return nil
}

func waitQuery(wait time.Duration) url.Values {
	if wait <= 0 {
		return nil
	}
	return url.Values{"wait": {strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)}}
}

// submit is safe to repeat: an id runs once.
func (a agentClient) submit(ctx context.Context, req wire.ExecRequest, wait time.Duration) (job wire.Job, err error) {
	err = a.call(ctx, wait+answerTime, http.MethodPost, "/v1/jobs", waitQuery(wait), req, &job)
	return job, err
}

func (a agentClient) job(ctx context.Context, id string, wait time.Duration) (job wire.Job, err error) {
	err = a.call(ctx, wait+answerTime, http.MethodGet, "/v1/jobs/"+id, waitQuery(wait), nil, &job)
	return job, err
}

func (a agentClient) kill(ctx context.Context, id string) (job wire.Job, err error) {
	err = a.call(ctx, answerTime, http.MethodPost, "/v1/jobs/"+id+"/kill", nil, nil, &job)
	return job, err
}

func (a agentClient) list(ctx context.Context, path string) (l wire.Listing, err error) {
	err = a.call(ctx, answerTime, http.MethodGet, "/v1/files/list", url.Values{"path": {path}}, nil, &l)
	return l, err
}

func (a agentClient) lease(ctx context.Context, d time.Duration) (l wire.Lease, err error) {
	err = a.call(ctx, answerTime, http.MethodPost, "/v1/lease", nil, wire.Lease{Seconds: d.Seconds()}, &l)
	return l, err
}

// get opens a file; header holds a Range or is nil.
func (a agentClient) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	return a.do(ctx, http.MethodGet, "/v1/files", url.Values{"path": {path}}, nil, func(r *http.Request) {
		if v := header.Get("Range"); v != "" {
			r.Header.Set("Range", v)
		}
	})
}

// put writes size bytes of body, -1 when not known, to path. mode "" is the agent's.
func (a agentClient) put(ctx context.Context, path, mode string, body io.Reader, size int64) (wire.File, error) {
	q := url.Values{"path": {path}}
	if mode != "" {
		q.Set("mode", mode)
	}
	var f wire.File
	resp, err := a.do(ctx, http.MethodPut, "/v1/files", q, body, func(r *http.Request) {
		if r.ContentLength = size; size == 0 {
			r.Body = http.NoBody
		}
	})
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil {
		return f, fmt.Errorf("read agent's answer to a put of %s: %w", path, err)
	}
	return f, nil
}

// output is what a job printed on one stream, from offset on; the caller closes it.
func (a agentClient) output(ctx context.Context, id string, q url.Values) (*http.Response, error) {
	return a.do(ctx, http.MethodGet, "/v1/jobs/"+id+"/output", q, nil, nil)
}
