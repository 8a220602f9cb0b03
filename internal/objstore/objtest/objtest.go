// Package objtest is what every object store must do, as one test suite, and a wrapper
// that makes any store break at a chosen write.
//
// The suite uses real stores that start empty; it assumes nothing about timing.
package objtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/internal/objstore"
)

// Run checks the stores that open makes. Each call must give an empty store.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, objstore.Store)
	}{
		{"create and read", testCreate},
		{"ranges", testRanges},
		{"absent", testAbsent},
		{"swap", testSwap},
		{"etag follows content", testETag},
		{"list", testList},
		{"delete", testDelete},
		{"bad keys", testKeys},
		{"racing creators", testRacingCreators},
		{"racing swappers", testRacingSwappers},
		{"body is opened again", testBodyAgain},
		{"broken bodies", testBrokenBody},
		{"cancelled context", testCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

func create(t *testing.T, s objstore.Store, key, content string) objstore.Info {
	t.Helper()
	info, err := s.Create(t.Context(), key, objstore.Bytes(content))
	if err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
	return info
}

func read(t *testing.T, s objstore.Store, key string) string {
	t.Helper()
	b, _, err := objstore.ReadAll(t.Context(), s, key, 1<<30)
	if err != nil {
		t.Fatalf("read %s: %v", key, err)
	}
	return string(b)
}

// same compares what a write and a Stat say of one object. The time of a write may be
// that of its answer.
func same(a, b objstore.Info) bool {
	apart := a.Modified.Sub(b.Modified).Abs()
	a.Modified, b.Modified = time.Time{}, time.Time{}
	return a == b && apart < 30*time.Second
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func testCreate(t *testing.T, s objstore.Store) {
	for _, size := range []int{0, 1, 1 << 20} {
		key, content := fmt.Sprintf("a/b-%d.x", size), strings.Repeat("x", size)
		info := create(t, s, key, content)
		if info.Key != key || info.Size != int64(size) || info.ETag == "" || info.Modified.IsZero() {
			t.Errorf("create %s: info %+v", key, info)
		}
		if read(t, s, key) != content {
			t.Errorf("%s: content changed", key)
		}
		stat, err := s.Stat(t.Context(), key)
		if err != nil || !same(stat, info) {
			t.Errorf("stat %s: %+v, %v; create said %+v", key, stat, err, info)
		}
		_, err = s.Create(t.Context(), key, objstore.Bytes("other"))
		wantErr(t, "create again", err, objstore.ErrExists)
		if err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("error %q does not name the key", err)
		}
		if read(t, s, key) != content {
			t.Errorf("%s: a refused create changed it", key)
		}
	}
	if s.String() == "" {
		t.Error("the store has no name")
	}
}

func testRanges(t *testing.T, s objstore.Store) {
	create(t, s, "k", "0123456789")
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {3, -1, "3456789"}, {8, 100, "89"}, {10, -1, ""}, {10, 5, ""}, {4, 0, ""}} {
		r, info, err := s.Open(t.Context(), "k", c.off, c.n)
		if err != nil {
			t.Errorf("open %d+%d: %v", c.off, c.n, err)
			continue
		}
		got, err := io.ReadAll(r)
		if string(got) != c.want || err != nil || info.Size != 10 {
			t.Errorf("open %d+%d: %q, %v of %d bytes; want %q", c.off, c.n, got, err, info.Size, c.want)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	for _, off := range []int64{-1, 11} {
		if r, _, err := s.Open(t.Context(), "k", off, 1); err == nil {
			r.Close()
			t.Errorf("open at %d: no error", off)
		}
	}
}

func testAbsent(t *testing.T, s objstore.Store) {
	create(t, s, "a/b", "x")
	for _, key := range []string{"a", "a/c", "z/z"} {
		_, _, err := s.Open(t.Context(), key, 0, -1)
		wantErr(t, "open "+key, err, objstore.ErrNotFound)
		_, err = s.Stat(t.Context(), key)
		wantErr(t, "stat "+key, err, objstore.ErrNotFound)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s, which is not there: %v", key, err)
		}
	}
}

func testSwap(t *testing.T, s objstore.Store) {
	one, err := s.Swap(t.Context(), "refs/x", objstore.Bytes("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Swap(t.Context(), "refs/x", objstore.Bytes("other"), "")
	wantErr(t, "swap as creation", err, objstore.ErrExists)
	two, err := s.Swap(t.Context(), "refs/x", objstore.Bytes("two"), one.ETag)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := s.Stat(t.Context(), "refs/x"); err != nil || !same(stat, two) {
		t.Errorf("stat %+v, %v; swap said %+v", stat, err, two)
	}
	_, err = s.Swap(t.Context(), "refs/x", objstore.Bytes("three"), one.ETag)
	wantErr(t, "stale swap", err, objstore.ErrExists)
	if got := read(t, s, "refs/x"); got != "two" {
		t.Errorf("content %q, want two", got)
	}
	if err := s.Delete(t.Context(), "refs/x"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Swap(t.Context(), "refs/x", objstore.Bytes("four"), two.ETag)
	wantErr(t, "swap of what was deleted", err, objstore.ErrExists)
}

// testETag swaps faster than any clock ticks. Equal bytes may have an equal ETag.
func testETag(t *testing.T, s objstore.Store) {
	info := create(t, s, "k", "start")
	seen := map[string]string{info.ETag: "start"}
	for i := range 100 {
		content := fmt.Sprintf("%02d", i%10)
		next, err := s.Swap(t.Context(), "k", objstore.Bytes(content), info.ETag)
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := seen[next.ETag]; ok && was != content {
			t.Fatalf("write %d of %q has the ETag that %q had", i, content, was)
		}
		seen[next.ETag], info = content, next
	}
}

func testList(t *testing.T, s objstore.Store) {
	keys := []string{"a-b", "a/b", "a/b2/c", "a.b", "ab", "b", "a/b-2", "Z", "a/é", "a/b2-", "blobs/x"}
	for _, k := range keys {
		create(t, s, k, k)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b2", "a/b2/", "a/b2/c", "b", "blobs/", "none", "none/", "a//", "../"} {
		var got, want []string
		for info, err := range s.List(t.Context(), prefix) {
			if err != nil {
				t.Fatalf("list %q: %v", prefix, err)
			}
			if info.Size != int64(len(info.Key)) || info.ETag == "" {
				t.Errorf("list %q: info %+v", prefix, info)
			}
			got = append(got, info.Key)
		}
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %q:\n got %q\nwant %q", prefix, got, want)
		}
	}
	for range s.List(t.Context(), "") {
		break // ending early must be possible
	}
}

func testDelete(t *testing.T, s objstore.Store) {
	create(t, s, "a/b", "x")
	if err := s.Delete(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Stat(t.Context(), "a/b")
	wantErr(t, "stat", err, objstore.ErrNotFound)
	create(t, s, "a/b", "again")
	if got := read(t, s, "a/b"); got != "again" {
		t.Errorf("content %q", got)
	}
}

func testKeys(t *testing.T, s objstore.Store) {
	for _, key := range []string{"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\x00b", `a\b`, strings.Repeat("k", 1001)} {
		_, err := s.Create(t.Context(), key, objstore.Bytes("x"))
		if err == nil || errors.Is(err, objstore.ErrExists) {
			t.Errorf("create %q: %v", key, err)
		}
		if _, err := s.Swap(t.Context(), key, objstore.Bytes("x"), ""); err == nil {
			t.Errorf("swap %q: no error", key)
		}
		if _, _, err := s.Open(t.Context(), key, 0, -1); err == nil {
			t.Errorf("open %q: no error", key)
		}
		if err := s.Delete(t.Context(), key); err == nil {
			t.Errorf("delete %q: no error", key)
		}
	}
	for info := range s.List(t.Context(), "") {
		t.Errorf("there is %q", info.Key)
	}
}

func testCancelled(t *testing.T, s objstore.Store) {
	info := create(t, s, "k", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, "new", objstore.Bytes("x"))
	wantErr(t, "create", err, context.Canceled)
	_, err = s.Swap(ctx, "k", objstore.Bytes("y"), info.ETag)
	wantErr(t, "swap", err, context.Canceled)
	wantErr(t, "delete", s.Delete(ctx, "k"), context.Canceled)
	_, _, err = s.Open(ctx, "k", 0, -1)
	wantErr(t, "open", err, context.Canceled)
	for _, err := range s.List(ctx, "") {
		wantErr(t, "list", err, context.Canceled)
	}
	if got := read(t, s, "k"); got != "x" {
		t.Errorf("content %q", got)
	}
	_, err = s.Stat(t.Context(), "new")
	wantErr(t, "stat", err, objstore.ErrNotFound)
}
