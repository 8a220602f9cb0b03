package minio

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	s3 "github.com/minio/minio-go/v7"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Open reads a range of an object. S3 has no empty range, and none that begins where
// the object ends, so these are answered from its description.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	name, err := s.begin(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if off < 0 || n == 0 {
		return s.openNothing(ctx, key, off)
	}
	asked := fmt.Sprintf("bytes=%d-", off) // also for all of it: only so does the answer say where it must end
	if n > 0 {
		asked += fmt.Sprint(off + min(n, 1<<62-off) - 1)
	}
	var opts s3.GetObjectOptions
	opts.Set("Range", asked)
	ctx, a := listen(ctx)
	body, o, header, err := s.core.GetObject(ctx, s.bucket, name, opts)
	if code(err) == "InvalidRange" || status(err) == http.StatusRequestedRangeNotSatisfiable {
		return s.openNothing(ctx, key, off)
	}
	if err != nil {
		return nil, objstore.Info{}, s.explain(ctx, "open", key, a, err)
	}
	info := objstore.Info{Key: key, ETag: o.ETag, Modified: o.LastModified.UTC()}
	var first, last int64
	_, err = fmt.Sscanf(header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &info.Size)
	left := last - first + 1
	if err != nil || first != off || n < 0 && last != info.Size-1 || n > 0 && left != min(n, info.Size-off) {
		body.Close()
		return nil, objstore.Info{}, fmt.Errorf("open %s/%s: %s was asked for %s and answered %q", s, key, s.url, asked, header.Get("Content-Range"))
	}
	return &reader{ctx: ctx, store: s, key: key, answer: a, body: body, left: left}, info, nil
}

// openNothing opens no bytes at off, which must be in the object or at its end.
func (s *Store) openNothing(ctx context.Context, key string, off int64) (io.ReadCloser, objstore.Info, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if off < 0 || off > info.Size {
		return nil, objstore.Info{}, fmt.Errorf("open %s/%s: offset %d is outside of its %d bytes", s, key, off, info.Size)
	}
	return http.NoBody, info, nil
}

// reader gives exactly the bytes that were announced, or an error.
type reader struct {
	ctx    context.Context // of Open
	store  *Store
	key    string
	answer *answer
	body   io.ReadCloser
	left   int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	switch {
	case r.left == 0:
		return n, nil
	case err == io.EOF:
		return n, exit.Retryf("read %s/%s: %w: the answer ends %d bytes early", r.store, r.key, objstore.ErrUnavailable, r.left)
	case err != nil:
		return n, r.store.explain(r.ctx, "read", r.key, r.answer, err)
	}
	return n, nil
}

func (r *reader) Close() error {
	r.body.Close() // what is left unread is not wanted; that it was cut off is no error
	return nil
}

// List asks for a thousand objects at a time. A service that does not list in byte order
// is refused, because those who go on after a break rely on it.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if folder := prefix[:strings.LastIndexByte(prefix, '/')+1]; folder != "" && objstore.CheckKey(folder[:len(folder)-1]) != nil {
			return // no key can have this prefix
		}
		ctx, a := listen(ctx)
		last := ""
		for o := range s.core.ListObjectsIter(ctx, s.bucket, s3.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if o.Err != nil {
				yield(objstore.Info{}, s.explain(ctx, "list", prefix, a, o.Err))
				return
			}
			key := strings.TrimPrefix(o.Key, s.prefix)
			if _, err := s.name(key); err != nil || !strings.HasPrefix(key, prefix) {
				continue // no object of ours: a console's folder, a probe
			}
			if key <= last {
				yield(objstore.Info{}, exit.Configf("list %s/%s: %s does not list in byte order: %q came after %q", s, prefix, s.url, key, last))
				return
			}
			last = key
			if !yield(objstore.Info{Key: key, Size: o.Size, ETag: o.ETag, Modified: o.LastModified.UTC()}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(objstore.Info{}, fmt.Errorf("list %s/%s: %w", s, prefix, err))
		}
	}
}
