package objtest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"orchard/internal/objstore"
)

// body is a Body that counts how often it was opened.
type body struct {
	content []byte
	size    int64
	fail    error // after the content
	opens   int
}

func (b *body) Size() int64 { return b.size }
func (b *body) Open() (io.ReadCloser, error) {
	b.opens++
	var r io.Reader = bytes.NewReader(b.content)
	if b.fail != nil {
		r = io.MultiReader(r, failingReader{b.fail})
	}
	return io.NopCloser(r), nil
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func testBodyAgain(t *testing.T, s objstore.Store) {
	b := &body{content: []byte("abc"), size: 3}
	for _, key := range []string{"one", "two"} {
		if _, err := s.Create(t.Context(), key, b); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, key); got != "abc" {
			t.Errorf("%s: %q", key, got)
		}
	}
	if b.opens < 2 {
		t.Errorf("the body was opened %d times for two writes", b.opens)
	}
}

func testBrokenBody(t *testing.T, s objstore.Store) {
	broken := errors.New("broken body")
	for name, b := range map[string]*body{
		"short":   {content: []byte("abc"), size: 4},
		"long":    {content: []byte("abc"), size: 2},
		"failing": {content: []byte("ab"), size: 3, fail: broken},
	} {
		_, err := s.Create(t.Context(), "k/"+name, b)
		if err == nil || b.fail != nil && !errors.Is(err, broken) {
			t.Errorf("create from a %s body: %v", name, err)
		}
		_, err = s.Stat(t.Context(), "k/"+name)
		wantErr(t, name, err, objstore.ErrNotFound)
	}
	for info := range s.List(t.Context(), "") {
		t.Errorf("a broken write left %q", info.Key)
	}
}
