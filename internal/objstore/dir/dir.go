// Package dir is a store over a local folder: object key a/b/c is the file a/b/c.
//
// An object becomes visible by one link(2) or rename(2) of a file that is already
// whole and synced, so a process killed anywhere, or a machine that loses power,
// leaves either the old state or the new one. What a dead process leaves behind are
// files named .tmp-…; they are never listed or opened, and the next writer to the
// same folder removes them. A living writer holds a lock on its own, so it keeps it.
//
// The store never changes a file in place, never follows a key out of its folder, and
// makes no folder before the first write. The file system must support hard links and
// flock. One key must not be a folder of another (a and a/b), which S3 would allow.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

const (
	tempPrefix = ".tmp-"
	lockName   = ".lock"
)

// Store is a folder. Safe for concurrent use, by several processes as well.
type Store struct {
	root string

	mu    sync.Mutex
	swept map[string]bool // folders whose leftovers this value has removed
}

var _ objstore.Store = (*Store)(nil)

// Open is the store in folder root, which need not exist yet. An existing path that is
// not a folder is an error.
func Open(root string) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("store folder %q: %w", root, err)
	}
	switch info, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("store folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("store folder %s: is a file", abs)
	}
	return &Store{root: abs, swept: map[string]bool{}}, nil
}

// String is the folder as a file URI.
func (s *Store) String() string { return "file://" + filepath.ToSlash(s.root) }

// path is the file of a key.
func (s *Store) path(key string) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(key, "/") {
		if hidden(part) {
			return "", fmt.Errorf("object key %q: %q is a name the store keeps for itself", key, part)
		}
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}

func hidden(name string) bool { return name == lockName || strings.HasPrefix(name, tempPrefix) }

// Open opens an object for reading; the reader keeps its bytes even if the object is
// replaced or deleted meanwhile.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, objstore.Info{}, err
	}
	path, err := s.path(key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, objstore.Info{}, explain("open", path, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err == nil && (off < 0 || off > fi.Size()) {
		err = fmt.Errorf("offset %d is outside of its %d bytes", off, fi.Size())
	}
	if err != nil {
		f.Close()
		return nil, objstore.Info{}, explain("open", path, err)
	}
	if n < 0 || n > fi.Size()-off {
		n = fi.Size() - off
	}
	return &section{io.NewSectionReader(f, off, n), f}, info(key, fi), nil
}

type section struct {
	*io.SectionReader
	io.Closer
}

// Stat describes an object.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, err
	}
	path, err := s.path(key)
	if err != nil {
		return objstore.Info{}, err
	}
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return objstore.Info{}, explain("stat", path, err)
	}
	return info(key, fi), nil
}

// info derives an object's description. The ETag rests on the modification time,
// which every write sets with nanoseconds and which Swap makes grow (see publish).
func info(key string, fi fs.FileInfo) objstore.Info {
	etag := fmt.Sprintf("%x-%x", fi.ModTime().UnixNano(), fi.Size())
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		etag += fmt.Sprintf("-%x", st.Ino)
	}
	return objstore.Info{Key: key, Size: fi.Size(), ETag: etag, Modified: fi.ModTime().UTC()}
}

// explain wraps a system error so that callers can branch on its kind, and names the
// path once. A full disk is gone until somebody makes room; a folder that this user cannot
// use is the machine's fault.
func explain(op, path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		err = le.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s %s: %w", op, path, objstore.ErrNotFound)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s %s: %w", op, path, objstore.ErrExists)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return exit.Gonef("%s %s: %w: %w", op, path, objstore.ErrNoSpace, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return exit.Configf("%s %s: %w", op, path, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// Delete removes an object. It takes the lock so that a Swap sees it either before or
// after.
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	if _, err := s.Stat(ctx, key); errors.Is(err, objstore.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain("delete", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// lock takes the store's write lock, which Swap and Delete hold for an instant.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(s.root, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, explain("lock", path, err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // closing the only descriptor unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, explain("lock", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}
