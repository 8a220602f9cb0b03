// Package objstore is bytes under keys: what a dataset needs of a local folder or an
// S3 bucket, and no more.
//
// A key is slash-separated, relative, without empty, "." or ".." parts (CheckKey).
// Objects appear whole or not at all, and a reader never sees a half-written one.
// List is for people and garbage collection: no correctness rests on it. Every
// implementation passes objtest; retries and limits are wrappers of the same
// interface. A cancelled context makes every call refuse to write.
package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"
)

// What a caller branches on; the error text names store and key.
var (
	ErrNotFound = errors.New("object not found")
	ErrExists   = errors.New("object exists already") // Create and Swap lost the race
	// ErrNoSpace: the store is full or a quota is used up; a retry helps only after
	// somebody made room.
	ErrNoSpace = errors.New("no space left in the store")
	// ErrUnavailable: the store could not be asked or gave no clear answer. A write may
	// or may not have happened; trying again is safe.
	ErrUnavailable = errors.New("store unavailable")
)

// Info describes an object. ETag differs whenever the bytes do, and may be the same again
// when they are; it is opaque. Modified is by the store's clock, and after a write no more
// exact than a few seconds.
type Info struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time
}

// Store is a flat space of objects. Safe for concurrent use.
type Store interface {
	// Create writes an object that must not exist yet, else ErrExists. Of several at
	// once exactly one succeeds.
	Create(ctx context.Context, key string, body Body) (Info, error)
	// Swap replaces the object whose ETag is etag, or creates it when etag is "";
	// ErrExists when somebody else was first, be it to change or to delete it.
	Swap(ctx context.Context, key string, body Body, etag string) (Info, error)
	// Open reads n bytes from off, fewer when the object ends before, to the end when
	// n < 0; an off that is negative or beyond the end is an error; ErrNotFound. Info is
	// the whole object's.
	Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error)
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose key starts with prefix, by key in byte order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// String is the store's URI, without credentials.
	fmt.Stringer
}

// Body is content that can be read again from the start, so that a write can be retried.
type Body interface {
	Open() (io.ReadCloser, error)
	Size() int64
}

// Bytes is a Body in memory.
type Bytes []byte

func (b Bytes) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
func (b Bytes) Size() int64                  { return int64(len(b)) }

// File is a Body on disk; its size is taken when the value is made.
type File struct {
	Path  string
	Bytes int64
}

func (f File) Open() (io.ReadCloser, error) { return os.Open(f.Path) }
func (f File) Size() int64                  { return f.Bytes }

// CheckKey says what is wrong with a key, or nil.
func CheckKey(key string) error {
	if key == "" || len(key) > 1000 {
		return fmt.Errorf("object key %q: must have 1 to 1000 bytes", key)
	}
	for _, part := range strings.Split(key, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\x00\\") {
			return fmt.Errorf("object key %q: parts must not be empty, \".\", \"..\" or hold NUL or backslash", key)
		}
	}
	return nil
}

// ReadAll is the whole object, refused beyond limit bytes.
func ReadAll(ctx context.Context, s Store, key string, limit int64) ([]byte, Info, error) {
	r, info, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, Info{}, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s/%s: %w", s, key, err)
	}
	if int64(len(b)) > limit {
		return nil, Info{}, fmt.Errorf("read %s/%s: larger than %d bytes", s, key, limit)
	}
	return b, info, nil
}
