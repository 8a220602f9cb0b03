package minio

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest/fakes3"
)

// counting is a service that ignores the named headers and counts what is written.
func counting(t testing.TB, ignored ...string) (svc service, puts *atomic.Int64) {
	t.Helper()
	puts = &atomic.Int64{}
	url := fakes3.Start(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				puts.Add(1)
			}
			for _, name := range ignored {
				r.Header.Del(name)
			}
			h.ServeHTTP(w, r)
		})
	})
	return service{cfg: config(url), bucket: fakes3.Bucket}, puts
}

func TestStoreWithoutConditionsIsRefused(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"If-None-Match", "If-Match"} {
		svc, puts := counting(t, header)
		s := svc.open(t)
		for range 2 { // the second time without asking
			_, err := s.Create(t.Context(), "k", objstore.Bytes("x"))
			if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "ignores conditional writes ("+header+")") {
				t.Errorf("%s ignored: create: %v", header, err)
			}
			_, err = s.Swap(t.Context(), "k", objstore.Bytes("x"), "some")
			if exit.Code(err) != exit.Config {
				t.Errorf("%s ignored: swap: %v", header, err)
			}
		}
		if n := puts.Load(); n > 3 {
			t.Errorf("%s ignored: %d requests wrote", header, n)
		}
		if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%s ignored: reading: %v", header, err)
		}
		page, err := s.core.ListObjects(s.bucket, "", "", "", 10)
		if err != nil || len(page.Contents) > 0 {
			t.Errorf("%s ignored: left behind: %v, %v", header, page.Contents, err)
		}
	}
}

func TestConditionsAreProvenOnce(t *testing.T) {
	t.Parallel()
	svc, puts := counting(t)
	root := svc.open(t).String()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(root, svc.cfg) // stores of one root, as each dataset opens its own
			if err == nil {
				_, err = s.Create(t.Context(), strings.Repeat("k", i+1), objstore.Bytes("x"))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := puts.Load(); n != 3+8 {
		t.Errorf("%d requests wrote, want 3 that prove and 8 objects", n)
	}
}

func TestReadersProveNothing(t *testing.T) {
	t.Parallel()
	svc, puts := counting(t)
	s := svc.open(t)
	s.Stat(t.Context(), "k")
	s.Open(t.Context(), "k", 0, -1)
	for range s.List(t.Context(), "") {
	}
	if n := puts.Load(); n != 0 {
		t.Errorf("%d requests wrote", n)
	}
}

// Trouble while finding out is not remembered as an answer.
func TestProofIsTriedAgain(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	url := fakes3.Start(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	s := service{cfg: config(url), bucket: fakes3.Bucket}.open(t)
	if _, err := s.Create(t.Context(), "k", objstore.Bytes("x")); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	down.Store(false)
	if _, err := s.Create(t.Context(), "k", objstore.Bytes("x")); err != nil {
		t.Errorf("create: %v", err)
	}
}
