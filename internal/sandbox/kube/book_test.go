package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// behind is a replica whose watch is far behind: it lists only what it has made itself.
type behind struct {
	*Runtime
	mine sync.Map
}

func (b *behind) Start(ctx context.Context, spec sandbox.Spec) (control.State, error) {
	b.mine.Store(spec.ID, true)
	return b.Runtime.Start(ctx, spec)
}

func (b *behind) List(ctx context.Context) ([]control.State, error) {
	all, err := b.Runtime.List(ctx)
	return slices.DeleteFunc(all, func(st control.State) bool { _, mine := b.mine.Load(st.Spec.ID); return !mine }), err
}

func (b *behind) Pools(context.Context) ([]control.PoolState, error) { return nil, nil }

// quotaService is a controller over rt for the key "ann", whose quota is given; ask makes one request.
func quotaService(t *testing.T, rt control.Runtime, quota string) (ask func(method, path string, body any) int) {
	t.Helper()
	sum := sha256.Sum256([]byte("ann"))
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "- {name: ann, sha256: %s, quota: {%s}}\n", hex.EncodeToString(sum[:]), quota), 0o600); err != nil {
		t.Fatal(err)
	}
	set := control.Defaults()
	set.KeysFile = path
	service, err := control.New(rt, set)
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path string, body any) int {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		req := httptest.NewRequest(method, path, bytes.NewReader(raw))
		req.Header.Set("X-API-Key", "ann")
		w := httptest.NewRecorder()
		service.ServeHTTP(w, req)
		return w.Code
	}
}

// Two controllers that are asked at once by one key make together just what its quota has
// room for, though neither sees what the other makes.
func TestQuotaOfTwoControllers(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	var asks []func(string, string, any) int
	for _, r := range c.replicas(2) {
		asks = append(asks, quotaService(t, &behind{Runtime: r}, "sandboxes: 6, cpu: 100"))
	}
	if got := asks[0]("PUT", "/pools/p", map[string]any{"image": "other:1", "size": 1, "cpu": "1"}); got != http.StatusOK {
		t.Fatalf("a pool: %d", got)
	}
	var mu sync.Mutex
	answers := map[int]int{}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			code := asks[i%2]("POST", "/sandboxes", map[string]any{"image": "image:1", "cpu": "1", "memory": "1Gi"})
			mu.Lock()
			defer mu.Unlock()
			answers[code]++
		})
	}
	all.Wait()
	made := len(slices.DeleteFunc(c.pods(), func(p corev1.Pod) bool { return poolOf(&p) != "" }))
	if answers[http.StatusOK] != 5 || answers[http.StatusTooManyRequests] != 35 || made != 5 {
		t.Errorf("answers %v, %d Pods; want 5 made beside a pool of one, and 35 refused", answers, made)
	}
}

// What ended, and what was refused, holds no place on any replica.
func TestQuotaIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	var asks []func(string, string, any) int
	for _, r := range c.replicas(2) {
		asks = append(asks, quotaService(t, r, "sandboxes: 1"))
	}
	create := func(replica int, id string) int {
		return asks[replica]("POST", "/sandboxes", map[string]any{"image": "image:1", "sandbox_id": id})
	}
	if got := asks[0]("POST", "/sandboxes", map[string]any{"image": "host"}); got != http.StatusUnprocessableEntity {
		t.Fatalf("what no cluster has: %d", got)
	}
	for i, id := range []string{"one", "two", "one"} { // an id that was used before, too
		until(t, "room for "+id, func() (bool, string) { got := create(i%2, id); return got == http.StatusOK, fmt.Sprint(got) })
		if got := create((i+1)%2, "more"); got != http.StatusTooManyRequests {
			t.Errorf("a second beside %s: %d", id, got)
		}
		if got := asks[(i+1)%2]("DELETE", "/sandboxes/"+id, nil); got != http.StatusOK {
			t.Errorf("delete: %d", got)
		}
	}
	put := func(size int) int {
		return asks[0]("PUT", "/pools/p", map[string]any{"image": "image:1", "size": size})
	}
	until(t, "room for a pool", func() (bool, string) { got := put(1); return got == http.StatusOK, fmt.Sprint(got) })
	if got := create(1, "three"); got != http.StatusTooManyRequests {
		t.Errorf("beside the pool: %d", got)
	}
	if got := put(0); got != http.StatusOK {
		t.Errorf("a smaller pool: %d", got)
	}
	if got := create(1, "three"); got != http.StatusOK {
		t.Errorf("beside a pool of none: %d", got)
	}
}

// Changes of one book from everywhere are in one order, also while writes fail.
func TestBookIsOneOrder(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	replicas := c.replicas(3)
	full := errors.New("full")
	var done sync.Map
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			err := replicas[i%3].Book(t.Context(), "ann", func(b map[string]control.Booking) error {
				if len(b) == 7 {
					return full
				}
				b[fmt.Sprint(i)] = control.Booking{Count: 1}
				return nil
			})
			switch {
			case err == nil:
				done.Store(i, true)
			case !errors.Is(err, full):
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := 0
	done.Range(func(any, any) bool { n++; return true })
	err := replicas[0].Book(t.Context(), "ann", func(b map[string]control.Booking) error {
		if len(b) != 7 || n != 7 {
			return fmt.Errorf("%d are booked, %d were told so", len(b), n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
