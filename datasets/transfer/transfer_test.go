package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
	"orchard/internal/objstore/mem"
	"orchard/internal/objstore/minio"
	"orchard/internal/objstore/objtest"
	"orchard/internal/objstore/objtest/fakes3"
)

// commit makes a version of rows with blobs, in several shards.
func commit(t *testing.T, s objstore.Store, seed int64, at time.Time) *datasets.Version {
	t.Helper()
	w, err := datasets.NewWriter[record.Task](s, "tasks", datasets.WriterOptions{ShardBytes: 1})
	must(t, err)
	defer w.Close()
	k := datasets.Keeper{Store: s, Limit: 50}
	for i := range 3 {
		patch, err := k.Keep(t.Context(), []byte(strings.Repeat(fmt.Sprintf("line %d of %d\n", i, seed), 20)))
		must(t, err)
		must(t, w.Write(t.Context(), record.Task{TaskID: fmt.Sprint(i), GoldPatch: patch}))
	}
	digest, _, err := w.Commit(t.Context(), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1, Seed: seed}, RowsIn: 3, Committed: at})
	must(t, err)
	v, err := datasets.OpenIn(t.Context(), s, "tasks", digest)
	must(t, err)
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func content(t *testing.T, s objstore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range s.List(t.Context(), "") {
		must(t, err)
		raw, _, err := objstore.ReadAll(t.Context(), s, info.Key, 1<<20)
		must(t, err)
		out[info.Key] = string(raw)
	}
	return out
}

func whole(t *testing.T, s objstore.Store, name, digest string) {
	t.Helper()
	v, err := datasets.OpenIn(t.Context(), s, name, digest)
	must(t, err)
	r, err := datasets.Verify(t.Context(), v)
	must(t, err)
	if len(r.Problems) > 0 {
		t.Errorf("the copy is damaged: %v", r.Problems)
	}
}

// TestCopyBetweenAllKindsOfStores goes around memory, a folder and S3.
func TestCopyBetweenAllKindsOfStores(t *testing.T) {
	t.Parallel()
	start := &mem.Store{}
	folder, err := dir.Open(t.TempDir())
	must(t, err)
	bucket, err := minio.Open("s3://"+fakes3.Bucket+"/some/prefix", minio.Config{Endpoint: fakes3.Start(t, nil), Addressing: "path", AccessKey: "key", SecretKey: "secret"})
	must(t, err)
	last := &mem.Store{}
	v := commit(t, start, 1, noon)
	for _, to := range []objstore.Store{folder, bucket, last} {
		r, err := Copy(t.Context(), v, to, Options{})
		must(t, err)
		if r.Copied != r.Objects || r.Key != v.Digest() {
			t.Errorf("to %s: %+v", to, r)
		}
		whole(t, to, "tasks", v.Digest())
		again, err := Copy(t.Context(), v, to, Options{Check: true})
		must(t, err)
		if again.Copied != 0 || again.Objects != r.Objects || again.Bytes != 0 {
			t.Errorf("to %s a second time: %+v", to, again)
		}
		v, err = datasets.OpenIn(t.Context(), to, "tasks", "")
		must(t, err)
	}
	want, got := content(t, start), content(t, last)
	if len(want) != len(got) {
		t.Errorf("%d objects arrived, want %d", len(got), len(want))
	}
	for key, raw := range want {
		if got[key] != raw {
			t.Errorf("%s is not what it was", key)
		}
	}
}

// TestBrokenCopy breaks a copy at every write, before and after it took effect: what is
// there is no version or a whole one, and a second copy ends as an undisturbed one.
func TestBrokenCopy(t *testing.T) {
	t.Parallel()
	from := &mem.Store{}
	v := commit(t, from, 1, noon)
	calm := &objtest.Faults{Store: &mem.Store{}}
	_, err := Copy(t.Context(), v, calm, Options{Workers: 1})
	must(t, err)
	want := content(t, calm.Store)
	// The order is the promise: nothing names what is not there.
	order := []string{"blobs/", "/data/", "/versions/", "/keys/", "/refs/"}
	at := 0
	for _, w := range calm.Writes() {
		for !strings.Contains(w, order[at]) {
			if at++; at == len(order) {
				t.Fatalf("%s is out of order in %q", w, calm.Writes())
			}
		}
	}
	for n := 1; n <= len(calm.Writes()); n++ {
		for _, after := range []bool{false, true} {
			to := &mem.Store{}
			if _, err := Copy(t.Context(), v, &objtest.Faults{Store: to, At: n, After: after}, Options{Workers: 1}); !errors.Is(err, objtest.ErrFault) {
				t.Fatalf("write %d: %v", n, err)
			}
			if _, err := datasets.OpenIn(t.Context(), to, "tasks", v.Digest()); err == nil {
				whole(t, to, "tasks", v.Digest())
			} else if !errors.Is(err, datasets.ErrNotFound) {
				t.Errorf("write %d: %v", n, err)
			}
			_, err := Copy(t.Context(), v, to, Options{})
			must(t, err)
			if got := content(t, to); len(got) != len(want) {
				t.Errorf("write %d: %d objects, want %d", n, len(got), len(want))
			}
			whole(t, to, "tasks", v.Digest())
		}
	}
}

// damaged changes, cuts or lengthens one object as it is read.
type damaged struct {
	objstore.Store
	key    string
	change func([]byte) []byte
}

func (d *damaged) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	r, info, err := d.Store.Open(ctx, key, off, n)
	if err != nil || key != d.key {
		return r, info, err
	}
	raw, err := io.ReadAll(r)
	return io.NopCloser(bytes.NewReader(d.change(raw))), info, err
}

// TestDamageIsNotCopied flips bits of every object of a version on the way: the other
// store never shows it, and the error names it.
func TestDamageIsNotCopied(t *testing.T) {
	t.Parallel()
	from := &mem.Store{}
	v := commit(t, from, 1, noon)
	for key, raw := range content(t, from) {
		if !strings.HasPrefix(key, "blobs/") && !strings.Contains(key, "/data/") {
			continue
		}
		for _, at := range []int{0, len(raw) / 2, len(raw) - 41, len(raw) - 1} {
			flip := func(b []byte) []byte { b[max(at, 0)] ^= 4; return b }
			bad := &damaged{from, key, flip}
			to := &mem.Store{}
			w, err := datasets.OpenIn(t.Context(), bad, "tasks", v.Digest())
			must(t, err)
			_, err = Copy(t.Context(), w, to, Options{})
			if exit.Code(err) != exit.Input || !strings.Contains(fmt.Sprint(err), key) || !strings.Contains(fmt.Sprint(err), "is damaged") {
				t.Errorf("%s, byte %d: %v", key, at, err)
			}
			if _, err := to.Stat(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%s, byte %d: was copied: %v", key, at, err)
			}
		}
		// A body that ends early is the store's trouble: nothing is known of the object.
		short := &damaged{from, key, func(b []byte) []byte { return b[:len(b)-1] }}
		w, err := datasets.OpenIn(t.Context(), short, "tasks", v.Digest())
		must(t, err)
		if _, err := Copy(t.Context(), w, &mem.Store{}, Options{}); err == nil || exit.Code(err) == exit.Input {
			t.Errorf("%s, cut: %v", key, err)
		}
	}
}

// TestTheFirstKeyStands: another result of the same work keeps its claim, and a copy
// does not make an older version the newest.
func TestTheFirstKeyStands(t *testing.T) {
	t.Parallel()
	from, to := &mem.Store{}, &mem.Store{}
	old, recent := commit(t, from, 1, noon), commit(t, to, 2, noon.Add(time.Hour))
	key := old.Manifest().Key
	_, err := to.Create(t.Context(), "tasks/keys/"+key, objstore.Bytes(recent.Digest()+"\n"))
	must(t, err)
	r, err := Copy(t.Context(), old, to, Options{})
	must(t, err)
	if r.Key != recent.Digest() {
		t.Errorf("the key is %s's, want %s's", r.Key, recent.Digest())
	}
	newest, err := datasets.OpenIn(t.Context(), to, "tasks", "")
	must(t, err)
	if newest.Digest() != recent.Digest() {
		t.Error("an older version became the newest")
	}
	// A key whose version is gone is claimed anew.
	to = &mem.Store{}
	_, err = to.Create(t.Context(), "tasks/keys/"+key, objstore.Bytes(strings.Repeat("0", 64)+"\n"))
	must(t, err)
	if r, err = Copy(t.Context(), old, to, Options{}); err != nil || r.Key != old.Digest() {
		t.Errorf("key %q, %v", r.Key, err)
	}
}

// TestCopiesAtOnce: several that copy the same all succeed.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	from, to := &mem.Store{}, &mem.Store{}
	v := commit(t, from, 1, noon)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Copy(t.Context(), v, to, Options{Workers: 3}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	whole(t, to, "tasks", v.Digest())
}

// TestFilesComeAlong copies what a stage wrote beside its version, checked by its list.
func TestFilesComeAlong(t *testing.T) {
	t.Parallel()
	from, to := &mem.Store{}, &mem.Store{}
	v := commit(t, from, 1, noon)
	prefix := "tasks/files/" + v.Manifest().Key
	put := func(key, text string) {
		_, err := from.Create(t.Context(), key, objstore.Bytes(text))
		must(t, err)
	}
	put(prefix+"/sft.jsonl", "{}\n")
	put(prefix+".json", `[{"name":"sft.jsonl","sha256":"ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356","bytes":3}]`)
	_, err := Copy(t.Context(), v, to, Options{Files: true})
	must(t, err)
	if got := content(t, to); got[prefix+"/sft.jsonl"] != "{}\n" || got[prefix+".json"] == "" {
		t.Errorf("the files did not come along: %v", got)
	}
	bad := &damaged{from, prefix + "/sft.jsonl", func(b []byte) []byte { b[0] = 'x'; return b }}
	v, err = datasets.OpenIn(t.Context(), bad, "tasks", v.Digest())
	must(t, err)
	if _, err := Copy(t.Context(), v, &mem.Store{}, Options{Files: true}); exit.Code(err) != exit.Input {
		t.Errorf("a damaged file: %v", err)
	}
}

// collecting deletes an object right after a copy found it there.
type collecting struct {
	objstore.Store
	part string // of its key
	once sync.Once
}

func (c *collecting) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := c.Store.Stat(ctx, key)
	if err == nil && strings.Contains(key, c.part) {
		c.once.Do(func() { err = c.Store.Delete(ctx, key) })
	}
	return info, err
}

// TestFoundObjectIsCollected: what an earlier copy left without a version is found, and
// collected as garbage before this one ends.
func TestFoundObjectIsCollected(t *testing.T) {
	t.Parallel()
	from := &mem.Store{}
	v := commit(t, from, 1, noon)
	for _, part := range []string{"blobs/", ".arrow"} {
		to := &mem.Store{}
		_, err := Copy(t.Context(), v, to, Options{})
		must(t, err)
		for key := range content(t, to) {
			if strings.Contains(key, "/manifest.json") || strings.Contains(key, "/keys/") || strings.Contains(key, "/refs/") {
				must(t, to.Delete(t.Context(), key))
			}
		}
		_, err = Copy(t.Context(), v, &collecting{Store: to, part: part}, Options{Workers: 1})
		if exit.Code(err) != exit.Retry || !strings.Contains(fmt.Sprint(err), "copy again") {
			t.Errorf("%s: %v", part, err)
		}
		if _, err := datasets.OpenIn(t.Context(), to, "tasks", v.Digest()); !errors.Is(err, datasets.ErrNotFound) {
			t.Errorf("%s: the version: %v", part, err)
		}
		_, err = Copy(t.Context(), v, to, Options{})
		must(t, err)
		whole(t, to, "tasks", v.Digest())
	}
}
