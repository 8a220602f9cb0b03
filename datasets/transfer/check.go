package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"

	"orchard/datasets"
	"orchard/internal/objstore"
)

// check starts looking at an object of size bytes.
type check func(size int64) checker

// checker is written an object to its end and then says whether it is what its name says:
// datasets.ErrDamaged when not. end is called once in any case; abandoned is that the object did
// not come to its end.
type checker interface {
	io.Writer
	end(abandoned bool) error
}

// hashCheck is for objects that are called by the hash of their bytes.
func hashCheck(sha string) check {
	return func(int64) checker { return &hashChecker{sha256.New(), sha} }
}

type hashChecker struct {
	hash.Hash
	sha string
}

func (h *hashChecker) end(bool) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != h.sha {
		return fmt.Errorf("%w: has sha256 %s", datasets.ErrDamaged, got)
	}
	return nil
}

// blobCheck is for blobs, which are called by the hash of what they hold: they are
// decompressed beside their way.
func blobCheck(sha string) check {
	return func(size int64) checker {
		pr, pw := io.Pipe()
		c := &blobChecker{pw, make(chan error, 1)}
		go func() {
			err := datasets.CheckBlob(pr, size, sha)
			pr.CloseWithError(errChecked) // what is left need not be seen
			c.said <- err
		}()
		return c
	}
}

var errChecked = errors.New("checked")

type blobChecker struct {
	pipe *io.PipeWriter
	said chan error
}

func (c *blobChecker) Write(p []byte) (int, error) {
	n, err := c.pipe.Write(p)
	if errors.Is(err, errChecked) {
		return len(p), nil
	}
	return n, err
}

func (c *blobChecker) end(abandoned bool) error {
	if abandoned {
		c.pipe.CloseWithError(io.ErrUnexpectedEOF)
	} else {
		c.pipe.Close()
	}
	return <-c.said
}

// verify passes r on and lets a checker see it; the last Read answers with what that says
// instead of io.EOF, so whoever stores it does not make it visible.
func verify(r io.ReadCloser, size int64, check check) *verifier {
	return &verifier{r: r, left: size, checker: check(size)}
}

type verifier struct {
	r       io.ReadCloser
	left    int64
	checker checker     // nil once it has said
	tell    func(error) // of damage; may be nil
	last    error       // what the end of the reading was
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.last != nil {
		return 0, v.last
	}
	n, err := v.r.Read(p)
	v.left -= int64(n)
	if n > 0 {
		if _, werr := v.checker.Write(p[:n]); werr != nil {
			err = werr
		}
	}
	if err == nil {
		return n, nil
	}
	if err == io.EOF && v.left != 0 { // the store's trouble, not the object's
		err = io.ErrUnexpectedEOF
	}
	said := v.end(err != io.EOF)
	if err == io.EOF && said != nil {
		err = said
		if v.tell != nil && errors.Is(said, datasets.ErrDamaged) {
			v.tell(said)
		}
	}
	v.last = err
	return n, err
}

func (v *verifier) end(abandoned bool) error {
	if v.checker == nil {
		return nil
	}
	c := v.checker
	v.checker = nil
	return c.end(abandoned)
}

// Close ends the check if it has not ended.
func (v *verifier) Close() error {
	_ = v.end(true)
	return v.r.Close()
}

// body reads an object of a store, checking it each time.
type body struct {
	ctx     context.Context
	store   objstore.Store
	key     string
	size    int64
	check   check
	damaged atomic.Pointer[error]
}

var _ objstore.Body = (*body)(nil)

// Size is the object's.
func (b *body) Size() int64 { return b.size }

// Open reads it from its start.
func (b *body) Open() (io.ReadCloser, error) {
	r, info, err := b.store.Open(b.ctx, b.key, 0, -1)
	if err != nil {
		return nil, err
	}
	if info.Size != b.size {
		r.Close()
		return nil, fmt.Errorf("%s/%s: has %d bytes, and had %d", b.store, b.key, info.Size, b.size)
	}
	v := verify(r, b.size, b.check)
	v.tell = func(err error) { b.damaged.Store(&err) }
	return v, nil
}
