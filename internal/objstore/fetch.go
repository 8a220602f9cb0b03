package objstore

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// fetchPart is what Fetch asks for at a time: enough to be worth a request, little enough
// that a break costs little.
const fetchPart = 8 << 20

// Fetch copies an object to w, up to workers ranges at once, and returns the Info of what
// was copied; an object that is replaced meanwhile is an error. It holds a small buffer a worker,
// however large the object is. Compare the hash of what arrived with the name or the
// manifest, as after any read.
func Fetch(ctx context.Context, s Store, key string, w io.WriterAt, workers int) (Info, error) {
	first, info, err := s.Open(ctx, key, 0, fetchPart)
	if err != nil {
		return Info{}, err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(max(workers, 1))
	group.Go(func() error { return copyRange(s, key, w, first, 0, min(fetchPart, info.Size)) })
	for off := int64(fetchPart); off < info.Size && gctx.Err() == nil; off += fetchPart {
		group.Go(func() error {
			r, now, err := s.Open(gctx, key, off, fetchPart)
			if err != nil {
				return err
			}
			if now.ETag != info.ETag {
				r.Close()
				return fmt.Errorf("read %s/%s: it was replaced meanwhile", s, key)
			}
			return copyRange(s, key, w, r, off, min(fetchPart, info.Size-off))
		})
	}
	if err := group.Wait(); err != nil {
		return Info{}, err
	}
	return info, ctx.Err()
}

func copyRange(s Store, key string, w io.WriterAt, r io.ReadCloser, off, want int64) error {
	defer r.Close()
	n, err := io.CopyBuffer(io.NewOffsetWriter(w, off), struct{ io.Reader }{r}, make([]byte, max(min(256<<10, want), 1)))
	if err == nil && n != want {
		err = fmt.Errorf("%w: %d bytes at %d, want %d", ErrUnavailable, n, off, want)
	}
	if err != nil {
		return fmt.Errorf("read %s/%s: %w", s, key, err)
	}
	return nil
}
