// Package mem is a store in memory, for tests and for work that leaves nothing behind.
//
// It keeps the whole contract of objstore.Store and nothing more: contents are lost
// with the value.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orchard/internal/objstore"
)

// Store holds objects in a map. The zero value is ready; safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	objects map[string]object
	writes  int
}

type object struct {
	content []byte
	info    objstore.Info
}

var _ objstore.Store = (*Store)(nil)

// String is "mem:".
func (s *Store) String() string { return "mem:" }

// Create adds an object.
func (s *Store) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	return s.Swap(ctx, key, body, "")
}

// Swap replaces an object, or adds it when etag is "".
func (s *Store) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	if err := objstore.CheckKey(key); err != nil {
		return objstore.Info{}, err
	}
	r, err := body.Open()
	if err != nil {
		return objstore.Info{}, fmt.Errorf("write %s%s: read content: %w", s, key, err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("write %s%s: read content: %w", s, key, err)
	}
	if n := int64(len(content)); n != body.Size() {
		return objstore.Info{}, fmt.Errorf("write %s%s: content has %d bytes, %d were announced", s, key, n, body.Size())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, err
	}
	if s.objects[key].info.ETag != etag {
		return objstore.Info{}, fmt.Errorf("write %s%s: %w", s, key, objstore.ErrExists)
	}
	if s.objects == nil {
		s.objects = map[string]object{}
	}
	s.writes++
	info := objstore.Info{Key: key, Size: body.Size(), ETag: strconv.Itoa(s.writes), Modified: time.Now().UTC()}
	s.objects[key] = object{content, info}
	return info, nil
}

func (s *Store) get(ctx context.Context, key string) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	if err := objstore.CheckKey(key); err != nil {
		return object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, fmt.Errorf("read %s%s: %w", s, key, objstore.ErrNotFound)
	}
	return o, nil
}

// Open reads from an object.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	o, err := s.get(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if off < 0 || off > o.info.Size {
		return nil, objstore.Info{}, fmt.Errorf("read %s%s: offset %d is outside of its %d bytes", s, key, off, o.info.Size)
	}
	if n < 0 || n > o.info.Size-off {
		n = o.info.Size - off
	}
	return io.NopCloser(bytes.NewReader(o.content[off : off+n])), o.info, nil
}

// Stat describes an object.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	o, err := s.get(ctx, key)
	return o.info, err
}

// List yields what was there when it started.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		s.mu.Lock()
		objects := maps.Clone(s.objects)
		s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if err := ctx.Err(); err != nil {
				yield(objstore.Info{}, err)
				return
			}
			if strings.HasPrefix(key, prefix) && !yield(objects[key].info, nil) {
				return
			}
		}
	}
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}
