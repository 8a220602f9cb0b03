package datasets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

// A rerun finds the work done; another writer of the same key adopts the first one's
// version even when its rows differ, as those of a model do.
func TestAdoption(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	v := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 0), WriterOptions{})
	key := v.Manifest().Key
	if digest, ok, err := FindKey(t.Context(), s, "notes", key); !ok || digest != v.Digest() || err != nil {
		t.Errorf("FindKey = %s, %v, %v", digest, ok, err)
	}
	if _, ok, err := FindKey(t.Context(), s, "notes", strings.Repeat("0", 64)); ok || err != nil {
		t.Errorf("FindKey of other work: %v, %v", ok, err)
	}
	digest, adopted, err := commit(t, s, "notes", []note{{ID: "b"}}, meta(1, 0), WriterOptions{})
	if digest != v.Digest() || !adopted || err != nil {
		t.Errorf("second commit: %s, %v, %v; want %s, adopted", digest, adopted, err, v.Digest())
	}
	if digest, adopted, err := commit(t, s, "notes", []note{{ID: "a"}}, meta(1, 0), WriterOptions{}); digest != v.Digest() || adopted || err != nil {
		t.Errorf("the same again: %s, %v, %v", digest, adopted, err)
	}

	// A claim whose version is gone, or that is damaged, does not hold.
	for _, damage := range []func() error{
		func() error { return s.Delete(t.Context(), ManifestKey("notes", v.Digest())) },
		func() error {
			info, err := s.Stat(t.Context(), keyKey("notes", key))
			if err == nil {
				_, err = s.Swap(t.Context(), info.Key, objstore.Bytes("x"), info.ETag)
			}
			return err
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := FindKey(t.Context(), s, "notes", key); ok || err != nil {
			t.Errorf("FindKey after the damage: %v, %v", ok, err)
		}
		again, adopted, err := commit(t, s, "notes", []note{{ID: "b"}}, meta(1, 0), WriterOptions{})
		if err != nil || adopted || again == v.Digest() {
			t.Errorf("commit after the damage: %s, %v, %v", again, adopted, err)
		}
	}
}

func TestNewestMovesForwardOnly(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	newest := func() string {
		v, err := OpenIn(t.Context(), s, "notes", "")
		if err != nil {
			t.Fatal(err)
		}
		return v.Digest()
	}
	one := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	two := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 2), WriterOptions{})
	if newest() != two.Digest() {
		t.Error("the second is not the newest")
	}
	if mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{}); newest() != two.Digest() {
		t.Error("a rerun of the first made it the newest")
	}
	// Killed before its last write, the second version is made the newest by its rerun,
	// also over a damaged reference.
	for _, content := range []string{"", "x\n", strings.Repeat("0", 64) + "\n", one.Digest() + "\n"} {
		info, err := s.Stat(t.Context(), latestKey("notes"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Swap(t.Context(), info.Key, objstore.Bytes(content), info.ETag); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(content, one.Digest()) {
			_, err := OpenIn(t.Context(), s, "notes", "")
			if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "notes/refs/latest: does not name a version") {
				t.Errorf("open by a damaged reference: %v", err)
			}
		}
		if err := Adopt(t.Context(), two); err != nil || newest() != two.Digest() {
			t.Errorf("adoption over %q: %v", content, err)
		}
	}
}

func TestRacingWriters(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	for round := range 5 {
		var wg sync.WaitGroup
		digests, won := make([]string, 4), make([]bool, 4)
		for i := range digests {
			wg.Go(func() {
				rows := []note{{ID: fmt.Sprint(i % 2)}} // two pairs of equals
				digest, adopted, err := commit(t, s, "notes", rows, meta(1, int64(round)), WriterOptions{})
				if err != nil {
					t.Error(err)
				}
				digests[i], won[i] = digest, !adopted
			})
		}
		wg.Wait()
		for i := range digests {
			if digests[i] != digests[0] || won[i] != won[i%2] {
				t.Errorf("round %d: %v, won %v", round, digests, won)
			}
		}
		if won[0] == won[1] {
			t.Errorf("round %d: won %v", round, won)
		}
	}
}

// collecting deletes a shard right after a writer found it there.
type collecting struct {
	objstore.Store
	once sync.Once
}

func (c *collecting) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := c.Store.Stat(ctx, key)
	if err == nil && strings.HasSuffix(key, ".arrow") {
		c.once.Do(func() { err = c.Store.Delete(ctx, key) })
	}
	return info, err
}

// TestFoundShardIsCollected: a shard of a writer that was killed long ago is found by the
// one that repeats its work, and collected as garbage before that one ends.
func TestFoundShardIsCollected(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	v := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	for _, key := range []string{ManifestKey("notes", v.Digest()), keyKey("notes", v.Manifest().Key), latestKey("notes")} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := commit(t, &collecting{Store: s}, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	if exit.Code(err) != exit.Retry || !strings.Contains(fmt.Sprint(err), "run the stage again") {
		t.Errorf("the commit: %v", err)
	}
	if _, err := OpenIn(t.Context(), s, "notes", v.Digest()); !errors.Is(err, ErrNotFound) {
		t.Errorf("the version: %v", err)
	}
	again := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	if r, err := Verify(t.Context(), again); err != nil || len(r.Problems) > 0 {
		t.Errorf("again: %v, %v", r.Problems, err)
	}
}
