package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// smallObject is what is kept in memory rather than in a temporary file.
const smallObject = 1 << 20

// object is a stored object that was compared with its hash and can be read anywhere.
// It is the body of a copy of itself.
type object struct {
	io.ReaderAt
	size int64
	once sync.Once
	free func() error
}

var _ objstore.Body = (*object)(nil)

// Open reads the object from its start.
func (o *object) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(o, 0, o.size)), nil
}

// Size is how many bytes it has.
func (o *object) Size() int64 { return o.size }

// Close frees what holds the object; later calls do nothing.
func (o *object) Close() (err error) {
	o.once.Do(func() {
		err = o.free()
		o.ReaderAt = nil
	})
	return err
}

// fetch reads an object of the version and compares it with its hash; then only is it
// handed out, since nothing that is damaged may reach a decoder.
//
// It goes into an unnamed temporary file, or into memory when it is small. A store whose
// reader can be read anywhere (a local folder's) is read twice instead, once to hash and
// once to use: such a reader holds the file itself, which the store never changes, and
// replaces or deletes only under its name.
func (v *Version) fetch(ctx context.Context, key, sha string, size int64) (*object, error) {
	r, info, err := v.store.Open(ctx, key, 0, -1)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, exit.Inputf("%s/%s: is missing", v.store, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", v.store, key, err)
	}
	if info.Size != size {
		r.Close()
		return nil, exit.Inputf("%s/%s: is damaged: has %d bytes, expected %d", v.store, key, info.Size, size)
	}
	o, h, err := hold(ctx, r, size)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s/%s: %w", v.store, key, err)
	case h != sha:
		o.Close()
		return nil, exit.Inputf("%s/%s: is damaged: has sha256 %s", v.store, key, h)
	}
	return o, nil
}

// hold takes over r and reads it to its end; hash is that of what it holds.
func hold(ctx context.Context, r io.ReadCloser, size int64) (o *object, hash string, err error) {
	o = &object{size: size, free: r.Close}
	h := sha256.New()
	var to io.Writer = h
	var buf bytes.Buffer
	at, anywhere := r.(io.ReaderAt)
	switch {
	case anywhere:
		o.ReaderAt = at
	case size <= smallObject:
		buf.Grow(int(size))
		to = io.MultiWriter(h, &buf)
	default:
		tmp, err := newSpool()
		if err != nil {
			r.Close()
			return nil, "", err
		}
		to = io.MultiWriter(h, tmp)
		o.ReaderAt, o.free = tmp.f, tmp.Close
	}
	n, err := copyAll(ctx, to, r)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes came of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if !anywhere {
		r.Close()
	}
	if err != nil {
		o.Close()
		return nil, "", err
	}
	if o.ReaderAt == nil {
		o.ReaderAt, o.free = bytes.NewReader(buf.Bytes()), func() error { return nil }
	}
	return o, hex.EncodeToString(h.Sum(nil)), nil
}

// buffers are what copyAll copies through.
var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// copyAll is io.Copy that ends with ctx.
func copyAll(ctx context.Context, w io.Writer, r io.Reader) (n int64, err error) {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := r.Read(*b)
		if m > 0 {
			if _, err := w.Write((*b)[:m]); err != nil {
				return n, err
			}
			n += int64(m)
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
