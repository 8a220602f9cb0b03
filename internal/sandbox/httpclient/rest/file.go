package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/cenkalti/backoff/v5"
)

// smallFile is the largest file that is held in memory to be sent again after a
// broken connection. Larger ones are sent again when their reader can seek.
const smallFile = 1 << 20

// Put sends size bytes of r (-1: all of it) as the body of a PUT, again after a broken
// connection where r allows.
func (c *Client) Put(ctx context.Context, path string, q url.Values, r io.Reader, size int64) error {
	if size >= 0 && size <= smallFile {
		data := make([]byte, size)
		if _, err := io.ReadFull(r, data); err != nil {
			return fmt.Errorf("read the %d bytes to put: %w", size, err)
		}
		r = bytes.NewReader(data)
	}
	seeker, start, err := replayable(r, size)
	if err != nil {
		return err
	}
	once := func() error {
		if seeker != nil {
			if _, err := seeker.Seek(start, io.SeekStart); err != nil {
				return backoff.Permanent(fmt.Errorf("read again what to put: %w", err))
			}
		}
		// The transport may read on after its answer: the body must be done before r is
		// used again.
		body := &upload{Reader: r, closed: make(chan struct{})}
		if size >= 0 {
			body.Reader = io.LimitReader(r, size)
		}
		resp, err := c.Send(ctx, http.MethodPut, path, q, body, func(req *http.Request) {
			if req.ContentLength = size; size == 0 {
				req.Body = http.NoBody
				body.Close()
			}
		})
		<-body.closed
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if seeker != nil {
		return c.Persist(ctx, once)
	}
	return once()
}

// replayable is r and where it stands when it can be read again from there, nil when
// it cannot. It is an error for r to have less than size bytes, as far as it tells.
func replayable(r io.Reader, size int64) (io.Seeker, int64, error) {
	s, ok := r.(io.Seeker)
	if !ok {
		return nil, 0, nil
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe that only looks like a file
		return nil, 0, nil
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("seek in what to put: %w", err)
	}
	if end-start < size {
		return nil, 0, fmt.Errorf("there are %d bytes to put, not %d", end-start, size)
	}
	return s, start, nil
}

// upload is a request's body that tells when the transport is done with it, and leaves
// its reader open.
type upload struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

// Close implements io.Closer.
func (u *upload) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

// Get opens what a GET answers with; the caller closes it.
func (c *Client) Get(ctx context.Context, path string, q url.Values, header http.Header) (resp *http.Response, err error) {
	err = c.Persist(ctx, func() error {
		var err error
		resp, err = c.Send(ctx, http.MethodGet, path, q, nil, func(r *http.Request) {
			for name, values := range header {
				r.Header[name] = values
			}
		})
		return err
	})
	return resp, err
}

// Stream sends r, whatever its length, as the body of a PUT, once, and takes the JSON
// answer.
func (c *Client) Stream(ctx context.Context, path string, q url.Values, r io.Reader, out any) error {
	body := &upload{Reader: r, closed: make(chan struct{})}
	resp, err := c.Send(ctx, http.MethodPut, path, q, body, func(req *http.Request) { req.ContentLength = -1 })
	<-body.closed // r is the caller's again
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
