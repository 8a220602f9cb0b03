package minio

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	s3 "github.com/minio/minio-go/v7"

	"orchard/internal/objstore"
)

const (
	// maxPut is the most that one request carries: sent again after a break it starts over.
	maxPut = 64 << 20
	// lookFirst is the size from which looking whether an object is there costs less than
	// sending it in vain.
	lookFirst = 1 << 20
)

// condition is what must hold for a write: the ETag that is there, or absent.
type condition string

const absent condition = "*"

func (c condition) options() s3.PutObjectOptions {
	opts := s3.PutObjectOptions{DisableMultipart: true, DisableContentSha256: true} // we give the hash ourselves
	if c == absent {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(string(c))
	}
	return opts
}

// Create writes a new object.
func (s *Store) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	return s.write(ctx, "create", key, body, absent)
}

// Swap replaces an object. To be there with another ETag and not to be there are the
// same answer: somebody was first.
func (s *Store) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	if etag == "" {
		return s.write(ctx, "create", key, body, absent)
	}
	return s.write(ctx, "swap", key, body, condition(etag))
}

func (s *Store) write(ctx context.Context, op, key string, body objstore.Body, c condition) (objstore.Info, error) {
	name, err := s.begin(ctx, key)
	if err != nil {
		return objstore.Info{}, err
	}
	if err := s.prove(ctx); err != nil {
		return objstore.Info{}, err
	}
	if body.Size() >= lookFirst {
		if err := s.look(ctx, op, key, c); err != nil {
			return objstore.Info{}, err
		}
	}
	if body.Size() > s.maxPut {
		return s.upload(ctx, op, key, name, body, c)
	}
	return s.putOnce(ctx, op, key, name, body, c)
}

// look is ErrExists when the condition does not hold now.
func (s *Store) look(ctx context.Context, op, key string, c condition) error {
	info, err := s.Stat(ctx, key)
	there := err == nil
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	if c == absent && there || c != absent && info.ETag != string(c) {
		return fmt.Errorf("%s %s/%s: %w", op, s, key, objstore.ErrExists)
	}
	return nil
}

// putOnce is one request with the whole body, which is read twice: for its hashes, then
// for its bytes.
func (s *Store) putOnce(ctx context.Context, op, key, name string, body objstore.Body, c condition) (objstore.Info, error) {
	sum, err := hash(ctx, body)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("%s %s/%s: read content: %w", op, s, key, err)
	}
	r, err := body.Open()
	if err != nil {
		return objstore.Info{}, fmt.Errorf("%s %s/%s: read content: %w", op, s, key, err)
	}
	defer r.Close()
	ctx, a := listen(ctx)
	content := &source{r: r}
	up, err := s.core.PutObject(ctx, s.bucket, name, content, body.Size(), sum.md5, sum.sha256, c.options())
	if broken := content.broken.Load(); err != nil && broken != nil {
		err = broken
	}
	if err != nil {
		return objstore.Info{}, s.refused(c, s.explain(ctx, op, key, a, err))
	}
	return s.written(ctx, key, body.Size(), up.ETag, a)
}

// refused turns that there is nothing to replace into a lost race.
func (s *Store) refused(c condition, err error) error {
	if c != absent && errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: %w", objstore.ErrExists, err)
	}
	return err
}

// written describes what was just written; a server that does not say its ETag is asked.
func (s *Store) written(ctx context.Context, key string, size int64, etag string, a *answer) (objstore.Info, error) {
	if etag == "" {
		return s.Stat(ctx, key)
	}
	return objstore.Info{Key: key, Size: size, ETag: etag, Modified: a.modified()}, nil
}

func (s *Store) remove(ctx context.Context, key, name string) error {
	ctx, a := listen(ctx)
	if err := s.core.RemoveObject(ctx, s.bucket, name, s3.RemoveObjectOptions{}); err != nil && code(err) != s3.NoSuchKey {
		return s.explain(ctx, "delete", key, a, err)
	}
	return nil
}

// sums is what a request says of its content.
type sums struct {
	md5, sha256 string // base64, hex
	etag        string // what most servers make of a single part
}

func sumBytes(b []byte) sums {
	m, h := md5.Sum(b), sha256.Sum256(b)
	return sums{base64.StdEncoding.EncodeToString(m[:]), hex.EncodeToString(h[:]), hex.EncodeToString(m[:])}
}

// hash reads a body through; one that has not the size it announces is refused.
func hash(ctx context.Context, body objstore.Body) (sums, error) {
	if b, ok := body.(objstore.Bytes); ok {
		return sumBytes(b), nil
	}
	r, err := body.Open()
	if err != nil {
		return sums{}, err
	}
	defer r.Close()
	m, h := md5.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(m, h), &whileAlive{ctx, io.LimitReader(r, body.Size()+1)})
	if err != nil {
		return sums{}, err
	}
	if n != body.Size() {
		return sums{}, fmt.Errorf("has %d bytes or more, %d were announced", n, body.Size())
	}
	raw := m.Sum(nil)
	return sums{base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(h.Sum(nil)), hex.EncodeToString(raw)}, nil
}

// whileAlive ends a copy when its context does.
type whileAlive struct {
	ctx context.Context
	r   io.Reader
}

func (w *whileAlive) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p)
}

// bodyError is trouble with reading what is to be written.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// source is a body that remembers its own trouble, so that it is not taken for the
// connection's. A transport may still read it when the request has ended.
type source struct {
	r      io.Reader
	broken atomic.Pointer[bodyError]
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.broken.Store(&bodyError{err})
	}
	return n, err
}
