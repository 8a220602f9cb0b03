package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
	"orchard/internal/objstore/objtest/fakes3"
	"orchard/internal/objstore/retry"
)

// cuts makes a store send in parts what is larger than part.
func (s *Store) cuts(part int64) *Store {
	s.maxPut, s.leastPart = part, part
	return s
}

// The smallest part that a real server takes is 5 MiB.
func (s service) part() int64 {
	if s.real {
		return 5 << 20
	}
	return 64 << 10
}

func content(seed uint64, n int64) objstore.Bytes {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	r.Read(b)
	return b
}

// pending is the incomplete uploads of a key, and how many parts each has.
func (s *Store) pending(t testing.TB, key string) (parts []int) {
	t.Helper()
	u := &session{Store: s, op: "test", key: key, name: s.prefix + key, body: objstore.Bytes{}}
	ids, err := u.uploads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		page, err := s.core.ListObjectParts(t.Context(), s.bucket, u.name, id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, len(page.ObjectParts))
	}
	return parts
}

func TestUpload(t *testing.T)        { t.Parallel(); testUpload(t, fake(t)) }
func TestClusterUpload(t *testing.T) { t.Parallel(); testUpload(t, realService(t)) }

func testUpload(t *testing.T, svc service) {
	p := svc.part()
	t.Run("create, swap and lose", func(t *testing.T) {
		t.Parallel()
		s := svc.open(t).cuts(p)
		one, two := content(1, 4*p), content(2, 2*p+1)
		info, err := s.Create(t.Context(), "k", one)
		if err != nil {
			t.Fatal(err)
		}
		if stat, err := s.Stat(t.Context(), "k"); err != nil || stat.ETag != info.ETag || info.Size != 4*p {
			t.Errorf("stat %+v, %v; create said %+v", stat, err, info)
		}
		if _, err := s.Create(t.Context(), "k", two); !errors.Is(err, objstore.ErrExists) {
			t.Errorf("create again: %v", err)
		}
		if _, err := s.Swap(t.Context(), "k", two, info.ETag); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Swap(t.Context(), "k", one, info.ETag); !errors.Is(err, objstore.ErrExists) {
			t.Errorf("stale swap: %v", err)
		}
		if b, _, err := objstore.ReadAll(t.Context(), s, "k", 1<<30); err != nil || !bytes.Equal(b, two) {
			t.Errorf("read %d bytes, %v; want the second content", len(b), err)
		}
		if left := s.pending(t, "k"); len(left) > 0 {
			t.Errorf("incomplete uploads with %v parts", left)
		}
	})
	t.Run("broken bodies", func(t *testing.T) {
		t.Parallel()
		s := svc.open(t).cuts(p)
		for name, b := range map[string]objstore.Body{"short": odd{content(1, 3*p-1), 3 * p}, "long": odd{content(1, 3*p+1), 3 * p}} {
			if _, err := s.Create(t.Context(), name, b); err == nil || errors.Is(err, objstore.ErrUnavailable) {
				t.Errorf("%s body: %v", name, err)
			}
			if _, err := s.Stat(t.Context(), name); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%s body: stat %v", name, err)
			}
		}
	})
	t.Run("goes on after a break", func(t *testing.T) {
		t.Parallel()
		testGoesOn(t, svc, p)
	})
	t.Run("leaves another content's parts", func(t *testing.T) {
		t.Parallel()
		s := svc.open(t).cuts(p)
		mine := content(1, 3*p)
		other := bytes.Clone(mine)
		other[2*p] ^= 1 // in the last part
		begun(t, s, "k", other, 3)
		if _, err := s.Create(t.Context(), "k", mine); err != nil {
			t.Fatal(err)
		}
		if b, _, err := objstore.ReadAll(t.Context(), s, "k", 1<<30); err != nil || !bytes.Equal(b, mine) {
			t.Errorf("%v, or the content has parts of another", err)
		}
		if left := s.pending(t, "k"); len(left) > 0 {
			t.Errorf("incomplete uploads with %v parts", left)
		}
	})
	t.Run("racing creators", func(t *testing.T) {
		t.Parallel()
		root := svc.open(t).String()
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				s, err := Open(root, svc.cfg)
				if err == nil {
					_, err = retry.New(s.cuts(p), retry.Policy{Initial: time.Millisecond}).Create(t.Context(), "k", content(7, 3*p+5))
				}
				errs[i] = err
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil && !errors.Is(err, objstore.ErrExists) {
				t.Errorf("writer %d: %v", i, err)
			}
		}
	})
}

// odd announces a size that it has not.
type odd struct {
	objstore.Bytes
	size int64
}

func (o odd) Size() int64 { return o.size }

// begun is an upload that a killed writer left, with some of its parts.
func begun(t testing.TB, s *Store, key string, body objstore.Bytes, parts int) {
	t.Helper()
	u := &session{Store: s, op: "begin", key: key, name: s.prefix + key, body: body}
	if err := u.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range int64(parts) {
		b := body[i*s.leastPart : min((i+1)*s.leastPart, int64(len(body)))]
		if _, err := u.sendPart(t.Context(), int(i)+1, b, sumBytes(b)); err != nil {
			t.Fatal(err)
		}
	}
}

func testGoesOn(t *testing.T, svc service, p int64) {
	direct := svc.open(t).cuts(p)
	body := content(3, 5*p+7)
	// A writer whose connection goes for good after its second part, as far as it knows.
	ctx, cancel := context.WithCancel(t.Context())
	begun(t, direct, "k", body, 2)
	cancel()
	if _, err := direct.Create(ctx, "k", body); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled create: %v", err)
	}
	proxy := objtest.NewProxy(t, svc.cfg.Endpoint, 0, "")
	cfg := svc.cfg
	cfg.Endpoint = proxy.URL
	s, err := Open(direct.String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cuts(p).Create(t.Context(), "k", body); err != nil {
		t.Fatal(err)
	}
	if b, _, err := objstore.ReadAll(t.Context(), direct, "k", 1<<30); err != nil || !bytes.Equal(b, body) {
		t.Errorf("%v, or the content is another", err)
	}
	sent := 0
	for _, r := range proxy.Requests() {
		if strings.Contains(r, "partNumber=") {
			sent++
		}
		if strings.HasPrefix(r, "POST") && strings.Contains(r, "uploads=") {
			t.Errorf("another upload was begun: %s", r)
		}
	}
	if sent != 4 { // of six
		t.Errorf("%d parts were sent, want the four that were missing:\n%s", sent, strings.Join(proxy.Requests(), "\n"))
	}
	if left := direct.pending(t, "k"); len(left) > 0 {
		t.Errorf("incomplete uploads with %v parts", left)
	}
}

func TestUploadSurvivesEveryFault(t *testing.T) { t.Parallel(); testUploadFaults(t, fake(t)) }
func TestClusterUploadSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	testUploadFaults(t, realService(t))
}

// testUploadFaults does every fault to every request of an upload that writes.
func testUploadFaults(t *testing.T, svc service) {
	p := svc.part()
	body := content(9, 2*p+3)
	create := func(t *testing.T, at int, fault objtest.Fault) (direct *Store, requests []string) {
		direct = svc.open(t).cuts(p)
		if err := direct.prove(t.Context()); err != nil {
			t.Fatal(err)
		}
		proxy := objtest.NewProxy(t, svc.cfg.Endpoint, at, fault)
		cfg := svc.cfg
		cfg.Endpoint = proxy.URL
		if fault == objtest.Stall {
			cfg.Idle = 500 * time.Millisecond
		}
		s, err := Open(direct.String(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		wrapped := retry.New(s.cuts(p), retry.Policy{Tries: 4, Initial: time.Millisecond, Max: 10 * time.Millisecond})
		_, err = wrapped.Create(t.Context(), "k", body)
		proxy.Flush()
		if err != nil && (fault != objtest.Twice || !errors.Is(err, objstore.ErrExists)) {
			t.Errorf("create: %v\n%s", err, strings.Join(proxy.Requests(), "\n"))
		}
		if b, _, err := objstore.ReadAll(t.Context(), direct, "k", 1<<30); err != nil || !bytes.Equal(b, body) {
			t.Errorf("%v, or the content is another", err)
		}
		return direct, proxy.Requests()
	}
	direct, requests := create(t, 0, "")
	if left := direct.pending(t, "k"); len(left) > 0 {
		t.Errorf("incomplete uploads with %v parts", left)
	}
	writes := 0
	for i, r := range requests {
		if strings.HasPrefix(r, "GET") || strings.HasPrefix(r, "HEAD") || !strings.Contains(r, "upload") {
			continue
		}
		writes++
		for _, fault := range objtest.AllFaults {
			t.Run(fmt.Sprint(i+1, " ", fault), func(t *testing.T) {
				t.Parallel()
				create(t, i+1, fault)
			})
		}
	}
	if writes != 5 { // begin, three parts, complete
		t.Errorf("%d requests write:\n%s", writes, strings.Join(requests, "\n"))
	}
}

// A server that ignores the condition when it completes: another's object that was there
// before is found, and stays.
func TestLateObjectIsNotOverwritten(t *testing.T) {
	t.Parallel()
	var s *Store
	var once sync.Once
	url := fakes3.Start(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("partNumber") == "2" { // somebody else is quicker
				once.Do(func() {
					if _, err := s.putOnce(context.Background(), "create", "k", s.prefix+"k", objstore.Bytes("theirs"), absent); err != nil {
						t.Error(err)
					}
				})
			}
			h.ServeHTTP(w, r)
		})
	})
	s = service{cfg: config(url), bucket: fakes3.Bucket}.open(t).cuts(64 << 10)
	if _, err := s.Create(t.Context(), "k", content(1, 150<<10)); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("create: %v", err)
	}
	if b, _, err := objstore.ReadAll(t.Context(), s, "k", 1<<20); string(b) != "theirs" {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	if left := s.pending(t, "k"); len(left) > 0 {
		t.Errorf("incomplete uploads with %v parts", left)
	}
}

func TestPartsAreCutAlike(t *testing.T) {
	t.Parallel()
	s := &Store{leastPart: leastPart}
	for size, want := range map[int64]int64{1: 16 << 20, 1 << 30: 16 << 20, 1 << 40: 105 << 20, 5 << 40: 525 << 20} {
		got := s.partSize(size)
		if got != want || (size+got-1)/got > mostParts {
			t.Errorf("parts of %d bytes for %d, want %d", got, size, want)
		}
	}
}
