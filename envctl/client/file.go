package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orchard/internal/sandbox/httpclient/rest"
)

// File is an entry of a folder.
type File struct {
	Name     string
	Kind     string // "file", "directory", "symlink", "fifo" …
	Size     int64
	Mode     fs.FileMode // permission bits
	Modified time.Time   // UTC
	Error    string      // what could not be found out
}

// fileError is err with the path, as fs.ErrNotExist or fs.ErrPermission where it says so.
func (s *Sandbox) fileError(doing, path string, err error) error {
	var e *rest.Error
	if errors.As(err, &e) && !e.Gone {
		switch {
		case e.Status == http.StatusNotFound:
			return &fs.PathError{Op: doing, Path: path, Err: fs.ErrNotExist}
		case e.Status == http.StatusForbidden && strings.Contains(e.Detail, path):
			return &fs.PathError{Op: doing, Path: path, Err: fs.ErrPermission}
		}
	}
	return explain(fmt.Sprintf("%s %s in sandbox %s", doing, path, s.id), err)
}

// Put writes size bytes of r to path, parents made, whole or not at all. A size of -1 is
// all of r. A relative path is below the working folder. After a broken connection it is
// sent again when it is at most 1 MiB or r can seek.
func (s *Sandbox) Put(ctx context.Context, path string, r io.Reader, size int64, mode fs.FileMode) error {
	q := url.Values{"path": {path}, "mode": {fmt.Sprintf("%04o", mode.Perm())}}
	if err := s.client.rest.Put(ctx, s.path("/raw"), q, r, size); err != nil {
		return s.fileError("put", path, err)
	}
	return nil
}

// Get opens a file; the caller closes it. A download that breaks off is an error of Read,
// never a short file.
func (s *Sandbox) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := s.client.rest.Get(ctx, s.path("/raw"), url.Values{"path": {path}}, nil)
	if err != nil {
		return nil, s.fileError("get", path, err)
	}
	return resp.Body, nil
}

// List is what is in a folder, sorted by name.
func (s *Sandbox) List(ctx context.Context, path string) ([]File, error) {
	var l struct {
		Files []struct {
			Name, Type, Kind, Mode, Modified, Error string
			Size                                    int64
		} `json:"files"`
	}
	err := s.client.rest.Call(ctx, rest.Request{Method: http.MethodGet, Path: s.path("/files/list"), Query: url.Values{"path": {path}}, Out: &l})
	if err != nil {
		return nil, s.fileError("list", path, err)
	}
	files := make([]File, len(l.Files))
	for i, f := range l.Files {
		files[i] = File{Name: f.Name, Kind: f.Type, Size: f.Size, Error: f.Error}
		if f.Kind != "" {
			files[i].Kind = f.Kind
		}
		if f.Mode != "" {
			if _, err := fmt.Sscanf(f.Mode, "%o", &files[i].Mode); err != nil {
				return nil, fmt.Errorf("list %s in sandbox %s: mode %q", path, s.id, f.Mode)
			}
		}
		if f.Modified != "" {
			if files[i].Modified, err = time.Parse("2006-01-02T15:04:05", f.Modified); err != nil {
				return nil, fmt.Errorf("list %s in sandbox %s: %w", path, s.id, err)
			}
		}
	}
	return files, nil
}

// PatchResult is what `git apply` said.
type PatchResult struct {
	Applied  bool   `json:"applied"`
	ExitCode *int   `json:"exit_code"` // 1 when it does not apply, 128 when it is no patch; nil when nobody knows
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Error    string `json:"error,omitempty"`
}

// Patch applies a patch in the working folder. One that does not apply is a result.
func (s *Sandbox) Patch(ctx context.Context, patch []byte, timeout time.Duration) (PatchResult, error) {
	var r struct {
		Success  bool   `json:"success"`
		ExitCode *int   `json:"exit_code"`
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
		Error    string `json:"error"`
	}
	body := map[string]any{"patch": string(patch)}
	if timeout > 0 {
		body["timeout_seconds"] = timeout.Seconds()
	}
	err := s.client.call(ctx, "patch sandbox "+s.id, rest.Request{
		Method: http.MethodPost, Path: s.path("/apply_patch"), Key: rest.NewKey(), Body: body, Wait: timeout + 30*time.Second, Out: &r,
	})
	return PatchResult{r.Success, r.ExitCode, r.Stdout, r.Stderr, r.Error}, err
}
