package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
	"orchard/internal/objstore/objtest/fakes3"
	"orchard/internal/objstore/retry"
)

// rewritten is a store whose answers to GET pass through edit.
func rewritten(t testing.TB, edit func(h http.Header, body []byte) []byte) *Store {
	t.Helper()
	url := fakes3.Start(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				h.ServeHTTP(w, r)
				return
			}
			rec := &recorder{header: http.Header{}, status: 200}
			h.ServeHTTP(rec, r)
			body := edit(rec.header, rec.body.Bytes())
			for k, v := range rec.header {
				w.Header()[k] = v
			}
			w.WriteHeader(rec.status)
			w.Write(body)
		})
	})
	return service{cfg: config(url), bucket: fakes3.Bucket}.open(t)
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Answers that are not what was asked for are never taken for it.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off, n      int64
		edit        func(h http.Header, body []byte) []byte
		unavailable bool
	}{
		"cut short, reframed": {0, -1, func(h http.Header, b []byte) []byte { h.Del("Content-Length"); return b[:4] }, true},
		"cut short":           {0, -1, func(h http.Header, b []byte) []byte { return b[:4] }, true},
		"range cut short":     {2, 6, func(h http.Header, b []byte) []byte { h.Set("Content-Length", "2"); return b[:2] }, true},
		"another range":       {2, 6, func(h http.Header, b []byte) []byte { h.Set("Content-Range", "bytes 1-6/10"); return b }, false},
		"a shorter range":     {2, 6, func(h http.Header, b []byte) []byte { h.Set("Content-Range", "bytes 2-3/10"); return b }, false},
		"no range":            {2, 6, func(h http.Header, b []byte) []byte { h.Del("Content-Range"); return b }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rewritten(t, c.edit)
			if _, err := s.Create(t.Context(), "k", objstore.Bytes("0123456789")); err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Open(t.Context(), "k", c.off, c.n)
			if err == nil {
				_, err = io.ReadAll(r)
				r.Close()
			}
			if err == nil || errors.Is(err, objstore.ErrUnavailable) != c.unavailable {
				t.Errorf("error %v, unavailable=%v wanted", err, c.unavailable)
			}
		})
	}
}

// A listing out of order is refused, and what is not ours is left out.
func TestListings(t *testing.T) {
	t.Parallel()
	s := rewritten(t, func(h http.Header, b []byte) []byte {
		h.Del("Content-Length")
		return bytes.ReplaceAll(b, []byte("/aa<"), []byte("/zz<"))
	})
	for _, key := range []string{"aa", "bb"} {
		if _, err := s.Create(t.Context(), key, objstore.Bytes("x")); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for _, err = range s.List(t.Context(), "") {
	}
	if err == nil || !strings.Contains(err.Error(), "byte order") {
		t.Errorf("out of order: %v", err)
	}
	s = fake(t).open(t)
	for _, name := range []string{"folder/", probePrefix + "x", "ours", "odd//name"} {
		if _, err := s.putOnce(t.Context(), "create", name, s.prefix+name, objstore.Bytes("x"), absent); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Equal(keys, []string{"ours"}) {
		t.Errorf("listed %q", keys)
	}
}

// More than a page, to the end and cancelled in the middle.
func TestLongListing(t *testing.T) {
	t.Parallel()
	s := fake(t).open(t)
	for i := range 1100 {
		if _, err := s.Create(t.Context(), fmt.Sprintf("k%04d", i), objstore.Bytes("")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range s.List(t.Context(), "k") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1100 {
		t.Errorf("listed %d", n)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		n, last := 0, error(nil)
		for _, err := range s.List(ctx, "") {
			if n++; n == 10 {
				cancel()
			}
			last = err
		}
		cancel()
		if !errors.Is(last, context.Canceled) {
			t.Fatalf("a cancelled listing ended with %v after %d", last, n)
		}
	}
}

func TestFetch(t *testing.T)        { t.Parallel(); testFetch(t, fake(t)) }
func TestClusterFetch(t *testing.T) { t.Parallel(); testFetch(t, realService(t)) }

// A large object comes whole through a proxy that breaks one answer, whichever.
func testFetch(t *testing.T, svc service) {
	direct := svc.open(t)
	for _, size := range []int64{0, 1, 8 << 20, 20<<20 + 3} {
		body := content(4, size)
		key := fmt.Sprint("k", size)
		if _, err := direct.Create(t.Context(), key, body); err != nil {
			t.Fatal(err)
		}
		for at := range 4 {
			cfg := svc.cfg
			cfg.Endpoint = objtest.NewProxy(t, svc.cfg.Endpoint, at, objtest.CutAnswer).URL
			s, err := Open(direct.String(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "f")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := objstore.Fetch(t.Context(), retry.New(s, retry.Policy{Initial: time.Millisecond}), key, f, 3)
			f.Close()
			got, rerr := os.ReadFile(path)
			if err != nil || rerr != nil || info.Size != size || !bytes.Equal(got, body) {
				t.Errorf("%d bytes, break at %d: %v, %v; got %d bytes", size, at, err, rerr, len(got))
			}
		}
	}
	var none discard
	if _, err := objstore.Fetch(t.Context(), direct, "none", none, 3); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("fetch what is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := objstore.Fetch(ctx, direct, "k1", none, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled fetch: %v", err)
	}
}

type discard struct{}

func (discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
