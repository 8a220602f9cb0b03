package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"orchard/internal/sandbox"
)

// smallFile is the largest file that is held in memory to be sent again after a
// broken connection. Larger ones are sent again when their reader can seek.
const smallFile = 1 << 20

// fileError is err with the path, as fs.ErrNotExist when there is no such file.
func (b *box) fileError(doing, path string, err error) error {
	var e *serviceError
	if errors.As(err, &e) && e.status == http.StatusNotFound && !e.gone {
		return &fs.PathError{Op: doing, Path: path, Err: fs.ErrNotExist}
	}
	return fmt.Errorf("%s %s in sandbox %s: %w", doing, path, b.id, lost(b.id, err))
}

// Put implements sandbox.Sandbox.
func (b *box) Put(ctx context.Context, path string, r io.Reader, size int64, mode uint32) error {
	fail := func(err error) error { return fmt.Errorf("put %s in sandbox %s: %w", path, b.id, err) }
	if size >= 0 && size <= smallFile {
		data := make([]byte, size)
		if _, err := io.ReadFull(r, data); err != nil {
			return fail(fmt.Errorf("read the %d bytes to put: %w", size, err))
		}
		r = bytes.NewReader(data)
	}
	seeker, start, err := replayable(r, size)
	if err != nil {
		return fail(err)
	}
	q := url.Values{"path": {path}, "mode": {fmt.Sprintf("%04o", mode&0o777)}}
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
		resp, err := b.client.send(ctx, http.MethodPut, b.path("/raw"), q, body, func(req *http.Request) {
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
		err = b.client.persist(ctx, once)
	} else {
		err = once()
	}
	if err != nil {
		return b.fileError("put", path, err)
	}
	return nil
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

// Get implements sandbox.Sandbox.
func (b *box) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	var body io.ReadCloser
	err := b.client.persist(ctx, func() error {
		resp, err := b.client.send(ctx, http.MethodGet, b.path("/raw"), url.Values{"path": {path}}, nil, nil)
		if err == nil {
			body = resp.Body
		}
		return err
	})
	if err != nil {
		return nil, b.fileError("get", path, err)
	}
	return body, nil
}

// List implements sandbox.Sandbox.
func (b *box) List(ctx context.Context, path string) ([]sandbox.File, error) {
	var l struct {
		Files []struct {
			Name, Type, Modified string
			Size                 int64
		} `json:"files"`
	}
	err := b.client.call(ctx, request{
		method: http.MethodGet, path: b.path("/files/list"), query: url.Values{"path": {path}}, out: &l, limit: answerTime,
	})
	if err != nil {
		return nil, b.fileError("list", path, err)
	}
	files := make([]sandbox.File, len(l.Files))
	for i, f := range l.Files {
		files[i] = sandbox.File{Name: f.Name, Dir: f.Type == "directory", Size: f.Size}
		if f.Modified != "" {
			if files[i].Modified, err = time.Parse("2006-01-02T15:04:05", f.Modified); err != nil {
				return nil, fmt.Errorf("list %s in sandbox %s: %w", path, b.id, err)
			}
		}
	}
	return files, nil
}
