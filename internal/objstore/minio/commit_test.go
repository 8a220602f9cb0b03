package minio_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/objstore/minio"
	"orchard/internal/objstore/objtest"
	"orchard/internal/objstore/retry"
)

// note is a row whose text may be a blob.
type note struct {
	ID   string      `json:"id"`
	Text record.Text `json:"text"`
}

func (n note) Key() string         { return n.ID }
func (note) Schema() (string, int) { return "note", 1 }

func commit(t testing.TB, s objstore.Store, rows int, seed int64) (digest string, err error) {
	t.Helper()
	w, err := datasets.NewWriter[note](s, "notes", datasets.WriterOptions{ShardBytes: 1})
	if err != nil {
		return "", err
	}
	defer w.Close()
	keeper := datasets.Keeper{Store: s, Limit: 16}
	for i := range rows {
		raw := fmt.Sprint("note ", i)
		if i%3000 == 0 {
			raw = strings.Repeat(fmt.Sprint(seed, raw), 20)
		}
		text, err := keeper.Keep(t.Context(), []byte(raw))
		if err != nil {
			return "", err
		}
		if err := w.Write(t.Context(), note{fmt.Sprintf("%06d", i), text}); err != nil {
			return "", err
		}
	}
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	digest, _, err = w.Commit(t.Context(), datasets.Meta{
		Stage:  datasets.Stage{Name: "make", Version: 1, Seed: seed},
		RowsIn: int64(rows), Started: start, Committed: start.Add(time.Duration(seed) * time.Second),
	})
	return digest, err
}

// work is two shards with two blobs over an older version of one row.
func work(t testing.TB, s objstore.Store) (digest string, err error) { return commit(t, s, 4100, 2) }

// place is one root on a server, seen directly.
type place struct {
	objstore.Store
	cfg minio.Config
	old string // the version that was there before
}

func newPlace(t testing.TB, cfg minio.Config, bucket string) place {
	t.Helper()
	p := place{cfg: cfg}
	p.Store = open(t, "s3://"+bucket+"/p/"+strings.ToLower(rand.Text()), cfg)
	var err error
	if p.old, err = commit(t, p, 1, 1); err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t testing.TB, root string, cfg minio.Config) objstore.Store {
	t.Helper()
	s, err := minio.Open(root, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// through is the place as seen through a proxy.
func (p place) through(t testing.TB, at int, fault objtest.Fault) (objstore.Store, *objtest.Proxy) {
	t.Helper()
	proxy := objtest.NewProxy(t, p.cfg.Endpoint, at, fault)
	cfg := p.cfg
	cfg.Endpoint = proxy.URL
	if fault == objtest.Stall {
		cfg.Idle = 500 * time.Millisecond
	}
	return open(t, p.String(), cfg), proxy
}

// left is every object of the place. ETags of equal content are equal.
func (p place) left(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range p.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out[info.Key] = fmt.Sprint(info.Size, " ", info.ETag)
	}
	return out
}

// check looks at a place after a fault: the new version is whole or absent, and the work
// done again ends as if there had been no fault.
func (p place) check(t testing.TB, want string, undisturbed map[string]string) {
	t.Helper()
	v, err := datasets.OpenIn(t.Context(), p, "notes", "")
	if err != nil {
		t.Fatalf("the newest version: %v", err)
	}
	if d := v.Digest(); d != p.old && d != want {
		t.Errorf("the newest version is %s, neither the old nor the new one", d)
	}
	for v, err := range datasets.Versions(t.Context(), p, "notes") {
		if err != nil {
			t.Errorf("a version: %v", err)
			continue
		}
		if r, err := datasets.Verify(t.Context(), v); err != nil || len(r.Problems) > 0 {
			t.Errorf("verify %s: %v, %v", v.Digest(), r.Problems, err)
		}
	}
	if got, err := work(t, p); err != nil || got != want {
		t.Errorf("rerun: %s, %v; want %s", got, err, want)
	}
	if d := cmp.Diff(undisturbed, p.left(t)); d != "" {
		t.Errorf("objects after the rerun (-undisturbed +got):\n%s", d)
	}
	if v, err := datasets.OpenIn(t.Context(), p, "notes", ""); err != nil || v.Digest() != want {
		t.Errorf("the newest version after the rerun: %v", err)
	}
}

// Every fault at every request of a commit that writes: the version is whole or absent,
// and with retries the commit succeeds. What the fake cannot refuse (a flipped bit under
// a changed MD5, say) the real server does.
func TestCommitSurvivesEveryFault(t *testing.T)        { t.Parallel(); testCommitFaults(t, "fake") }
func TestClusterCommitSurvivesEveryFault(t *testing.T) { t.Parallel(); testCommitFaults(t, "real") }

func testCommitFaults(t *testing.T, service string) {
	cfg, bucket := minio.Services[service](t)
	calm := newPlace(t, cfg, bucket)
	s, proxy := calm.through(t, 0, "")
	want, err := work(t, s)
	if err != nil {
		t.Fatal(err)
	}
	undisturbed := calm.left(t)
	writes := 0
	for i, request := range proxy.Requests() {
		method, path, _ := strings.Cut(request, " ")
		if method == "GET" || method == "HEAD" {
			continue
		}
		writes++
		for n, fault := range objtest.AllFaults {
			for _, tries := range []uint{1, 4} {
				if os.Getenv("ORCHARD_SOAK") == "" && ((i+n)%2 == 0) == (tries == 1) {
					continue // a chessboard: each fault and each write both ways, each pair in one
				}
				t.Run(fmt.Sprintf("%d %s tries=%d", i+1, fault, tries), func(t *testing.T) {
					t.Parallel()
					p := newPlace(t, cfg, bucket)
					bare, proxy := p.through(t, i+1, fault)
					got, err := work(t, retry.New(bare, retry.Policy{Tries: tries, Initial: time.Millisecond, Max: 10 * time.Millisecond}))
					proxy.Flush()
					if tries > 1 && (err != nil || got != want) {
						t.Errorf("%s %s: the commit ended with %s, %v", method, path, got, err)
					}
					if requests := proxy.Requests(); len(requests) <= i {
						t.Errorf("the fault at %d was not reached: %s", i+1, requests)
					}
					p.check(t, want, undisturbed)
				})
			}
		}
	}
	// 3 and a deletion to prove conditions, 2 blobs, 2 shards, blob list, card, manifest, key, newest
	if writes != 13 {
		t.Errorf("the commit has %d writes: %s", writes, strings.Join(proxy.Requests(), "\n"))
	}
}
