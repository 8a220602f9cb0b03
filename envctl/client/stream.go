package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// Chunk is a part of what a job printed, in order and without gaps within its stream but
// for what Dropped says.
type Chunk struct {
	Stream  string // "stdout" or "stderr"
	Offset  int64  // where Data begins in the stream
	Dropped int64  // bytes right before Offset that were printed and not kept
	Data    []byte // may be empty when bytes were dropped
}

// Offsets are how much of a job's output is known already, in bytes.
type Offsets struct{ Stdout, Stderr int64 }

// Stream gives each what the job has printed from the offsets on, and goes on printing, and
// returns what the job came to. A connection that breaks is made anew where it was, so each
// byte comes once. An error of each ends it and is returned.
func (j *Job) Stream(ctx context.Context, from Offsets, each func(Chunk) error) (JobInfo, error) {
	for idle := 0; ; idle++ {
		before := from
		var resp *http.Response
		err := j.client.rest.Persist(ctx, func() (err error) {
			resp, err = j.open(ctx, from)
			return err
		})
		if err != nil {
			return JobInfo{}, explain("stream of job "+j.id, err)
		}
		info, err := j.read(ctx, resp, &from, each)
		var own *stopped
		switch {
		case err == nil:
			return info, nil
		case errors.As(err, &own):
			return info, own.error
		case from != before:
			idle = 0
		}
		// A connection that always breaks at once is not made anew in a tight loop.
		select {
		case <-time.After(min(time.Duration(idle)*100*time.Millisecond, 5*time.Second)):
		case <-ctx.Done():
		}
		if ctx.Err() != nil || idle > 20 {
			return JobInfo{}, explain("stream of job "+j.id, errors.Join(context.Cause(ctx), err))
		}
	}
}

// open is a stream from the offsets on.
func (j *Job) open(ctx context.Context, from Offsets) (*http.Response, error) {
	return j.client.rest.Open(ctx, rest.Request{
		Method: http.MethodGet, Path: "/jobs/" + escape(j.id) + "/stream",
		Query: url.Values{"stdout": {strconv.FormatInt(from.Stdout, 10)}, "stderr": {strconv.FormatInt(from.Stderr, 10)}},
	})
}

// stopped is an error of the caller's own.
type stopped struct{ error }

// streamSilence is how long a stream without a sign of life is thought to live.
const streamSilence = 30 * time.Second

// read follows one connection to the job's end.
func (j *Job) read(ctx context.Context, resp *http.Response, from *Offsets, each func(Chunk) error) (JobInfo, error) {
	defer resp.Body.Close()
	dead := time.AfterFunc(streamSilence, func() { resp.Body.Close() })
	defer dead.Stop()
	defer context.AfterFunc(ctx, func() { resp.Body.Close() })()
	for events := (sse{bufio.NewReader(resp.Body)}); ; {
		name, data, err := events.next()
		if err != nil {
			return JobInfo{}, err
		}
		dead.Reset(streamSilence)
		switch name {
		case "stdout", "stderr":
			if err := take(name, data, from, each); err != nil {
				return JobInfo{}, err
			}
		case "exit":
			var got rest.Job
			if err := json.Unmarshal(data, &got); err != nil {
				return JobInfo{}, fmt.Errorf("read event: %w", err)
			}
			return jobOf(got), nil
		}
	}
}

func take(name string, data []byte, from *Offsets, each func(Chunk) error) error {
	c := Chunk{Stream: name}
	var e struct {
		Offset, Dropped int64
		Data            []byte
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	c.Offset, c.Dropped, c.Data = e.Offset, e.Dropped, e.Data
	at := &from.Stdout
	if name == "stderr" {
		at = &from.Stderr
	}
	if err := each(c); err != nil {
		return &stopped{err}
	}
	*at = c.Offset + int64(len(c.Data))
	return nil
}

// Follow copies what the job prints to stdout and stderr as it comes, from the beginning,
// and returns what the job came to, without its output.
func (j *Job) Follow(ctx context.Context, stdout, stderr io.Writer) (Result, error) {
	info, err := j.Stream(ctx, Offsets{}, func(c Chunk) error {
		to := stdout
		if c.Stream == "stderr" {
			to = stderr
		}
		_, err := to.Write(c.Data)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	r, err := info.Result()
	if err != nil {
		return r, fmt.Errorf("job %s: %w", j.id, err)
	}
	return r, nil
}

// sse reads server-sent events.
type sse struct{ from *bufio.Reader }

// next is the next event that has data, or a comment as one without a name.
func (s sse) next() (name string, data []byte, err error) {
	for {
		line, err := s.from.ReadBytes('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && (name != "" || data != nil):
			return name, data, nil
		case len(line) > 0 && line[0] == ':':
			return "", nil, nil
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			data = append(data, value...)
		}
	}
}
