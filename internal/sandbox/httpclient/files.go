package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient/rest"
)

// fileError is err with the path, as fs.ErrNotExist when there is no such file.
func (b *box) fileError(doing, path string, err error) error {
	var e *rest.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound && !e.Gone {
		return &fs.PathError{Op: doing, Path: path, Err: fs.ErrNotExist}
	}
	return fmt.Errorf("%s %s in sandbox %s: %w", doing, path, b.id, lost(b.id, err))
}

// Put implements sandbox.Sandbox.
func (b *box) Put(ctx context.Context, path string, r io.Reader, size int64, mode uint32) error {
	q := url.Values{"path": {path}, "mode": {fmt.Sprintf("%04o", mode&0o777)}}
	if err := b.client.Put(ctx, b.path("/raw"), q, r, size); err != nil {
		return b.fileError("put", path, err)
	}
	return nil
}

// Get implements sandbox.Sandbox.
func (b *box) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := b.client.Get(ctx, b.path("/raw"), url.Values{"path": {path}}, nil)
	if err != nil {
		return nil, b.fileError("get", path, err)
	}
	return resp.Body, nil
}

// List implements sandbox.Sandbox.
func (b *box) List(ctx context.Context, path string) ([]sandbox.File, error) {
	var l struct {
		Files []struct {
			Name, Type, Modified string
			Size                 int64
		} `json:"files"`
	}
	err := b.client.Call(ctx, rest.Request{Method: http.MethodGet, Path: b.path("/files/list"), Query: url.Values{"path": {path}}, Out: &l})
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
