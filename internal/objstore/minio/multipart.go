package minio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	s3 "github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/retry"
)

const (
	leastPart = 16 << 20
	mostParts = 10000
	// sending is how many parts are under way, each in memory.
	sending = 4
)

// quick is for what is repeated within a call: the caller's own retries come on top.
var quick = retry.Policy{Tries: 4, Max: 2 * time.Second}

// partSize depends on the size alone, so that a writer that starts again cuts alike.
func (s *Store) partSize(size int64) int64 {
	const step = 1 << 20
	least := (size + mostParts - 1) / mostParts
	if least <= s.leastPart {
		return s.leastPart
	}
	return (least + step - 1) / step * step
}

// session is one multipart upload of a body.
type session struct {
	*Store
	op, key, name string
	body          objstore.Body
	c             condition
	id            string
	there         map[int]s3.ObjectPart // what an earlier writer sent
}

// upload writes a large body in parts.
func (s *Store) upload(ctx context.Context, op, key, name string, body objstore.Body, c condition) (objstore.Info, error) {
	u := &session{Store: s, op: op, key: key, name: name, body: body, c: c}
	if err := u.resume(ctx); err != nil {
		return objstore.Info{}, err
	}
	parts, err := u.send(ctx)
	if errors.Is(err, errOthers) {
		u.id, u.there = "", nil
		parts, err = u.send(ctx)
	}
	if err == nil {
		err = s.look(ctx, op, key, c) // for servers that check no condition when they complete
	}
	var info objstore.Info
	if err == nil {
		info, err = u.complete(ctx, parts)
	}
	switch {
	case err == nil:
		if others, err := u.uploads(ctx); err == nil {
			u.abort(ctx, others...)
		}
	case errors.Is(err, objstore.ErrExists):
		u.abort(ctx, u.id)
	case errors.Is(err, errNoUpload):
		// Another writer of this key was done, and has tidied up.
		if lerr := s.look(ctx, op, key, c); lerr != nil {
			return info, lerr
		}
		err = exit.Retryf("%w: %w", objstore.ErrUnavailable, err)
	}
	return info, err
}

// resume finds the upload of an earlier writer that has the most parts of the right size.
func (u *session) resume(ctx context.Context) error {
	uploads, err := u.uploads(ctx)
	if err != nil {
		return err
	}
	for _, id := range uploads {
		parts, err := u.parts(ctx, id)
		if err != nil && !errors.Is(err, errNoUpload) {
			return err
		}
		if len(parts) > len(u.there) {
			u.id, u.there = id, parts
		}
	}
	return nil
}

// uploads is the incomplete uploads of the key.
func (u *session) uploads(ctx context.Context) (ids []string, err error) {
	keyMark, idMark := "", ""
	for {
		ctx, a := listen(ctx)
		page, err := u.core.ListMultipartUploads(ctx, u.bucket, u.name, keyMark, idMark, "", 1000)
		if code(err) == "NoSuchUpload" { // some servers say so when there are none
			return ids, nil
		}
		if err != nil {
			return nil, u.explain(ctx, u.op, u.key, a, err)
		}
		for _, up := range page.Uploads {
			if up.Key == u.name {
				ids = append(ids, up.UploadID)
			}
		}
		if !page.IsTruncated || page.NextKeyMarker <= keyMark && page.NextUploadIDMarker == idMark {
			return ids, nil
		}
		keyMark, idMark = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// parts is what an upload has, or nothing when it cannot be one of this body.
func (u *session) parts(ctx context.Context, id string) (map[int]s3.ObjectPart, error) {
	parts := map[int]s3.ObjectPart{}
	for mark := 0; ; {
		ctx, a := listen(ctx)
		page, err := u.core.ListObjectParts(ctx, u.bucket, u.name, id, mark, 1000)
		if err != nil {
			return nil, u.explain(ctx, u.op, u.key, a, err)
		}
		for _, p := range page.ObjectParts {
			if p.Size != u.length(p.PartNumber) {
				return nil, nil
			}
			p.ETag = strings.Trim(p.ETag, `"`)
			parts[p.PartNumber] = p
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= mark {
			return parts, nil
		}
		mark = page.NextPartNumberMarker
	}
}

// length is the size of a part, 0 of one that the body does not have.
func (u *session) length(number int) int64 {
	size := u.partSize(u.body.Size())
	return max(0, min(size, u.body.Size()-int64(number-1)*size))
}

// errOthers: the parts that are there are of another content.
var errOthers = errors.New("parts of another content")

// send reads the body once, and sends the parts that are not there yet.
func (u *session) send(ctx context.Context) (parts []s3.CompletePart, err error) {
	r, err := u.body.Open()
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: read content: %w", u.op, u.Store, u.key, err)
	}
	defer r.Close()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(sending)
	buffers := make(chan []byte, sending)
	for range sending {
		buffers <- nil // made when it is needed
	}
	size := u.partSize(u.body.Size())
	parts = make([]s3.CompletePart, (u.body.Size()+size-1)/size)
	for i := range parts {
		var buf []byte
		select {
		case buf = <-buffers:
		case <-gctx.Done():
		}
		if gctx.Err() != nil {
			break
		}
		if buf == nil {
			buf = make([]byte, size)
		}
		number := i + 1
		content := buf[:u.length(number)]
		if err := u.fill(gctx, r, content, i == len(parts)-1); err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		sum := sumBytes(content)
		if p, ok := u.there[number]; ok {
			if p.ETag != sum.etag {
				group.Wait()
				return nil, errOthers
			}
			parts[i] = s3.CompletePart{PartNumber: number, ETag: p.ETag}
			buffers <- buf
			continue
		}
		if u.id == "" {
			if err := u.start(gctx); err != nil {
				return nil, err
			}
		}
		group.Go(func() error {
			etag, err := u.sendPart(gctx, number, content, sum)
			parts[i] = s3.CompletePart{PartNumber: number, ETag: etag}
			buffers <- buf
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return parts, ctx.Err()
}

// fill reads the next part; after the last one the body must end.
func (u *session) fill(ctx context.Context, r io.Reader, content []byte, last bool) error {
	r = &whileAlive{ctx, r}
	_, err := io.ReadFull(r, content)
	if err == nil && last {
		if _, err = io.ReadFull(r, make([]byte, 1)); err == io.EOF {
			return nil
		}
		err = cmp.Or(err, io.EOF)
	}
	switch err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		err = fmt.Errorf("has not the %d bytes that were announced", u.body.Size())
	}
	return fmt.Errorf("%s %s/%s: read content: %w", u.op, u.Store, u.key, err)
}

func (u *session) start(ctx context.Context) (err error) {
	u.id, err = retry.Do(ctx, quick, func(int) (string, error) {
		ctx, a := listen(ctx)
		id, err := u.core.NewMultipartUpload(ctx, u.bucket, u.name, s3.PutObjectOptions{})
		if err != nil {
			return "", u.explain(ctx, u.op, u.key, a, err)
		}
		return id, nil
	})
	return err
}

func (u *session) sendPart(ctx context.Context, number int, content []byte, sum sums) (etag string, err error) {
	return retry.Do(ctx, quick, func(int) (string, error) {
		ctx, a := listen(ctx)
		p, err := u.core.PutObjectPart(ctx, u.bucket, u.name, u.id, number, bytes.NewReader(content), int64(len(content)),
			s3.PutObjectPartOptions{Md5Base64: sum.md5, Sha256Hex: sum.sha256, DisableContentSha256: true})
		if err != nil {
			return "", u.explain(ctx, u.op, u.key, a, err)
		}
		return p.ETag, nil
	})
}

// complete makes the parts an object, and looks whether it is all of them: the list of
// parts has no hash that every server checks.
func (u *session) complete(ctx context.Context, parts []s3.CompletePart) (objstore.Info, error) {
	lctx, a := listen(ctx)
	_, err := u.core.CompleteMultipartUpload(lctx, u.bucket, u.name, u.id, parts, u.c.options())
	if err != nil {
		return objstore.Info{}, u.refused(u.c, u.explain(lctx, u.op, u.key, a, err))
	}
	info, err := u.Stat(ctx, u.key)
	if err == nil && info.Size != u.body.Size() {
		err = exit.Retryf("%s %s/%s: %w: it has %d bytes, %d were sent", u.op, u.Store, u.key, objstore.ErrUnavailable, info.Size, u.body.Size())
	}
	return info, err
}

// abort ends one upload of the key, or all of them. It is a courtesy. A living writer
// whose upload goes this way finds the object there.
func (u *session) abort(ctx context.Context, ids ...string) {
	for _, id := range ids {
		u.core.AbortMultipartUpload(ctx, u.bucket, u.name, id)
	}
}
