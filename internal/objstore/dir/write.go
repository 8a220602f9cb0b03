package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"orchard/internal/objstore"
)

// Create writes a new object: a synced temporary file gets its name by link(2), which
// fails when the name is taken.
func (s *Store) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	path, err := s.path(key)
	if err != nil {
		return objstore.Info{}, err
	}
	if _, err := os.Lstat(path); err == nil {
		return objstore.Info{}, explain("create", path, fs.ErrExist) // spares the writing
	}
	tmp, err := s.write(ctx, path, body)
	if err != nil {
		return objstore.Info{}, err
	}
	defer tmp.discard()
	fi, err := tmp.stamp(time.Time{})
	if err != nil {
		return objstore.Info{}, explain("create", path, err)
	}
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, err
	}
	if err := os.Link(tmp.Name(), path); err != nil {
		return objstore.Info{}, explain("create", path, err)
	}
	return info(key, fi), syncDir(filepath.Dir(path))
}

// Swap replaces an object under the store's lock, by rename(2).
func (s *Store) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	if etag == "" {
		return s.Create(ctx, key, body)
	}
	path, err := s.path(key)
	if err != nil {
		return objstore.Info{}, err
	}
	tmp, err := s.write(ctx, path, body)
	if err != nil {
		return objstore.Info{}, err
	}
	defer tmp.discard()
	unlock, err := s.lock(ctx)
	if err != nil {
		return objstore.Info{}, err
	}
	defer unlock()
	old, err := s.Stat(ctx, key)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return objstore.Info{}, err
	}
	if err != nil || old.ETag != etag {
		return objstore.Info{}, fmt.Errorf("swap %s: changed meanwhile: %w", path, objstore.ErrExists)
	}
	fi, err := tmp.stamp(old.Modified)
	if err != nil {
		return objstore.Info{}, explain("swap", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return objstore.Info{}, explain("swap", path, err)
	}
	return info(key, fi), syncDir(filepath.Dir(path))
}

// temp is a file that has no key yet. Its writer holds an flock on it for as long as
// it lives, which is how sweep tells it from a leftover.
type temp struct{ *os.File }

// discard removes the file's temporary name and closes it; what was linked stays.
func (t temp) discard() {
	os.Remove(t.Name())
	t.Close()
}

// stamp sets the modification time: now, and later than after. The kernel's own stamps
// are coarser than two writes can be apart.
func (t temp) stamp(after time.Time) (fs.FileInfo, error) {
	now := time.Now()
	if !now.After(after) {
		now = after.Add(time.Nanosecond)
	}
	if err := os.Chtimes(t.Name(), now, now); err != nil {
		return nil, err
	}
	return t.Stat()
}

// write makes a synced temporary file with the content of body in the folder of path.
func (s *Store) write(ctx context.Context, path string, body objstore.Body) (t temp, err error) {
	if err := ctx.Err(); err != nil {
		return temp{}, err
	}
	folder := filepath.Dir(path)
	if err := makeDir(folder); err != nil {
		return temp{}, explainPlace(path, err)
	}
	s.sweep(folder)
	t, err = newTemp(folder)
	if err != nil {
		return temp{}, explainPlace(path, err)
	}
	defer func() {
		if err != nil {
			t.discard()
		}
	}()
	r, err := body.Open()
	if err != nil {
		return t, fmt.Errorf("write %s: read content: %w", path, err)
	}
	defer r.Close()
	n, err := io.Copy(t.File, &contextReader{ctx, r})
	switch {
	case ctx.Err() != nil:
		return t, ctx.Err()
	case err != nil:
		return t, explain("write", path, err)
	case n != body.Size():
		return t, fmt.Errorf("write %s: content has %d bytes, %d were announced", path, n, body.Size())
	}
	if err := t.Sync(); err != nil {
		return t, explain("write", path, err)
	}
	return t, nil
}

// explainPlace is explain for trouble with the folder of an object that is written:
// a place that cannot be is no object that is missing.
func explainPlace(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("write %s: cannot make %s: %w", path, pe.Path, pe.Err)
	}
	return explain("write", path, err)
}

// newTemp makes a locked temporary file. Between making and locking it a sweep may
// take it for a leftover; then its last name is gone and the next one is tried.
func newTemp(folder string) (temp, error) {
	for {
		name := filepath.Join(folder, tempPrefix+rand.Text())
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		if err != nil {
			return temp{}, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			temp{f}.discard()
			return temp{}, err
		}
		if _, err := os.Lstat(name); err == nil {
			return temp{f}, nil
		}
		f.Close()
	}
}

// sweep removes the temporary files of dead processes from a folder, once per folder
// and Store. It is a courtesy: trouble is left to the write that follows.
func (s *Store) sweep(folder string) {
	s.mu.Lock()
	done := s.swept[folder]
	s.swept[folder] = true
	s.mu.Unlock()
	if done {
		return
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		f, err := os.OpenFile(filepath.Join(folder, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.Remove(f.Name())
		}
		f.Close()
	}
}

// makeDir makes a folder and those above it, and syncs each parent that got a new one.
func makeDir(folder string) error {
	switch fi, err := os.Stat(folder); {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: folder, Err: syscall.ENOTDIR}
	}
	parent := filepath.Dir(folder)
	if parent != folder {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in a folder survive a power loss.
func syncDir(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return explain("sync", folder, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems cannot
		return explain("sync", folder, err)
	}
	return nil
}

// contextReader ends a copy when its context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
