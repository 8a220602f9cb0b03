package datasets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// A stored blob is one zstd frame and then a skippable frame (RFC 8878, 3.1.2) with
// the sha256 of the first: some bits of a zstd frame mean nothing, and this way a
// change of any byte shows. zstd -d reads such a file as it is.
var trailerHead = []byte{0x5e, 0x2a, 0x4d, 0x18, sha256.Size, 0, 0, 0}

const trailerSize = 8 + sha256.Size

// PutBlob stores content under the hex sha256 of it. A blob that is there is left.
func PutBlob(ctx context.Context, store objstore.Store, content []byte) (sha string, err error) {
	sha = seal.Bytes(content)
	if _, err := store.Stat(ctx, BlobKey(sha)); err == nil {
		return sha, nil
	} else if !errors.Is(err, objstore.ErrNotFound) {
		return "", fmt.Errorf("store blob %s: %w", sha, err)
	}
	var buf bytes.Buffer
	if _, err := compress(&buf, bytes.NewReader(content)); err != nil {
		return "", fmt.Errorf("compress blob %s: %w", sha, err)
	}
	return sha, createBlob(ctx, store, sha, objstore.Bytes(buf.Bytes()))
}

// PutBlobFrom is PutBlob for content of any length, which goes through a temporary
// file; size is that of the content.
func PutBlobFrom(ctx context.Context, store objstore.Store, content io.Reader) (sha string, size int64, err error) {
	tmp, err := newSpool()
	if err != nil {
		return "", 0, err
	}
	defer tmp.Close()
	h := &digester{Reader: content, hash: sha256.New()}
	if size, err = compress(tmp, h); err != nil {
		return "", 0, fmt.Errorf("compress blob: %w", err)
	}
	sha = h.sum()
	return sha, size, createBlob(ctx, store, sha, tmp)
}

func createBlob(ctx context.Context, store objstore.Store, sha string, body objstore.Body) error {
	_, err := store.Create(ctx, BlobKey(sha), body)
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return fmt.Errorf("store blob %s: %w", sha, err)
	}
	return nil
}

// compress writes content as it is stored and returns how much there was.
func compress(w io.Writer, content io.Reader) (int64, error) {
	h := sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(w, h), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(z, content)
	if err := errors.Join(err, z.Close()); err != nil {
		return n, err
	}
	_, err = w.Write(h.Sum(trailerHead[:len(trailerHead):len(trailerHead)]))
	return n, err
}

// OpenBlob reads a blob. What was read is right only once Read has answered io.EOF: a
// damaged blob ends with an error instead.
func OpenBlob(ctx context.Context, store objstore.Store, sha string) (io.ReadCloser, error) {
	if !digestPattern.MatchString(sha) {
		return nil, exit.Inputf("blob %q: a blob's name is 64 lower-case hex digits", sha)
	}
	r, info, err := store.Open(ctx, BlobKey(sha), 0, -1)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, exit.Inputf("%s/%s: is missing: %w", store, BlobKey(sha), err)
	}
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", sha, err)
	}
	b, err := newBlobReader(r, info.Size, sha)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("read blob %s: %w", sha, err)
	}
	return &openBlob{b, store.String() + "/" + BlobKey(sha), r}, nil
}

// openBlob is a stored blob that is read; its errors name it and have their class.
type openBlob struct {
	*blobReader
	name   string
	stored io.Closer
}

func (o *openBlob) Read(p []byte) (int, error) {
	n, err := o.blobReader.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, ErrDamaged):
		return n, exit.Inputf("%s: %w", o.name, err)
	}
	return n, fmt.Errorf("read %s: %w", o.name, err)
}

func (o *openBlob) Close() error {
	o.zstd.Close()
	return o.stored.Close()
}

// ErrDamaged: the bytes are not those that their name says.
var ErrDamaged = errors.New("is damaged")

// CheckBlob reads a blob as it is stored, size bytes, to its end; content that is not
// called sha is ErrDamaged. An error of r is returned as it is.
func CheckBlob(r io.Reader, size int64, sha string) error {
	b, err := newBlobReader(r, size, sha)
	if err != nil {
		return err
	}
	defer b.zstd.Close()
	_, err = io.Copy(io.Discard, b)
	return err
}

// blobReader decompresses and, at the end, compares both hashes.
type blobReader struct {
	sha     string
	stored  io.Reader
	frame   digester // of the stored frame
	zstd    *zstd.Decoder
	content digester
}

func newBlobReader(stored io.Reader, size int64, sha string) (*blobReader, error) {
	b := &blobReader{sha: sha, stored: stored}
	b.frame = digester{Reader: io.LimitReader(stored, size-trailerSize), hash: sha256.New()}
	z, err := zstd.NewReader(&b.frame, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	b.zstd = z
	b.content = digester{Reader: z, hash: sha256.New()}
	return b, nil
}

func (b *blobReader) Read(p []byte) (int, error) {
	n, err := b.content.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		if b.frame.err != nil {
			return n, b.frame.err // the store's trouble, not the blob's
		}
		return n, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	trailer, err := io.ReadAll(b.stored)
	if err != nil {
		return n, err
	}
	want := append(bytes.Clone(trailerHead), b.frame.hash.Sum(nil)...)
	if b.content.sum() != b.sha || !bytes.Equal(trailer, want) {
		return n, fmt.Errorf("%w: its content has another sha256", ErrDamaged)
	}
	return n, io.EOF
}

// ReadBlob is a whole blob, refused beyond limit bytes.
func ReadBlob(ctx context.Context, store objstore.Store, sha string, limit int64) ([]byte, error) {
	r, err := OpenBlob(ctx, store, sha)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, exit.Inputf("blob %s: larger than %d bytes", sha, limit)
	}
	return b, nil
}

// MaxText is the most bytes that TextBytes reads of one text, whatever its row says.
const MaxText = 64 << 20

// TextBytes is the exact content of a text, from its blob when it has one.
func TextBytes(ctx context.Context, store objstore.Store, t record.Text) ([]byte, error) {
	if t.Blob == "" {
		return []byte(t.Value), nil
	}
	return ReadBlob(ctx, store, t.Blob, min(t.Bytes, MaxText))
}

// digester hashes what is read through it and remembers why reading ended.
type digester struct {
	io.Reader
	hash hash.Hash
	err  error // other than io.EOF
}

func (d *digester) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	d.hash.Write(p[:n])
	if err != nil && err != io.EOF {
		d.err = err
	}
	return n, err
}

func (d *digester) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }
