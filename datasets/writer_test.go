package datasets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	rows := notes(t, s, 50)
	v := mustCommit(t, s, "notes", rows, meta(50, 0), WriterOptions{ShardBytes: 1})
	if d := cmp.Diff(rows, readRows[note](t, v)); d != "" {
		t.Errorf("rows changed (-want +got):\n%s", d)
	}
	m := v.Manifest()
	if v.Manifest().Rows != 50 || len(m.Shards) != 1 { // a shard ends with a batch, and 50 rows are one
		t.Errorf("%d rows in %d shards", v.Manifest().Rows, len(m.Shards))
	}
	if got := readRows[note](t, v, WithColumns("id", "text.bytes")); got[1].Text != (record.Text{Bytes: rows[1].Text.Bytes}) || got[1].ID != "0001" || got[1].Next != nil {
		t.Errorf("projection: %+v", got[1])
	}
	for i, r := range rows[:3] {
		b, err := TextBytes(t.Context(), v.Store(), r.Text)
		if err != nil || int64(len(b)) != r.Text.Bytes {
			t.Errorf("text %d: %d bytes, %v", i, len(b), err)
		}
	}
	n := 0
	for o, err := range Objects(t.Context(), v) {
		if err != nil || o[0].Name != "id" || o[0].Value != rows[n].ID {
			t.Fatalf("object %d: %v, %v", n, o, err)
		}
		n++
	}
	if n != 50 {
		t.Errorf("%d objects", n)
	}
}

func TestShardsRoll(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	var rows []note
	random := rand.NewChaCha8([32]byte{1})
	for i := range 5 {
		b := make([]byte, 5<<20)
		random.Read(b)
		rows = append(rows, note{ID: fmt.Sprint(i), Text: record.Text{Value: fmt.Sprintf("%x", b)}, Next: []string{}})
	}
	v := mustCommit(t, s, "notes", rows, meta(5, 0), WriterOptions{ShardBytes: 6 << 20})
	m := v.Manifest()
	var spans []string
	for _, sh := range m.Shards {
		spans = append(spans, sh.FirstKey+"-"+sh.LastKey)
	}
	if got := strings.Join(spans, " "); got != "0-1 2-3 4-4" {
		t.Errorf("shards hold %s", got)
	}
	if d := cmp.Diff(rows, readRows[note](t, v)); d != "" {
		t.Error("rows changed")
	}
}

func TestNoRows(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	m := meta(3, 0)
	m.Dropped = map[string]int64{"all wrong": 3}
	v := mustCommit(t, s, "notes", nil, m, WriterOptions{})
	if got := readRows[note](t, v); len(got) != 0 || v.Manifest().Rows != 0 {
		t.Errorf("rows %v", got)
	}
	if r, err := Verify(t.Context(), v); err != nil || len(r.Problems) > 0 || r.Objects != 2 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

func TestHugeText(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	huge := strings.Repeat("çà et là ", 4<<20)
	v := mustCommit(t, s, "notes", []note{{ID: "a", Text: record.Text{Value: huge}}}, meta(1, 0), WriterOptions{})
	if got := readRows[note](t, v); got[0].Text.Value != huge {
		t.Error("text changed")
	}
}

func TestSortingAndDuplicates(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	a, b := note{ID: "a", Next: []string{}}, note{ID: "b", Next: []string{}}
	sorted := mustCommit(t, s, "notes", []note{a, b}, meta(2, 0), WriterOptions{})
	digest, adopted, err := commit(t, s, "notes", []note{b, a}, meta(2, 0), WriterOptions{Sort: true})
	if err != nil || digest != sorted.Digest() || adopted {
		t.Errorf("sorting gave %s, %v, %v; want %s", digest, adopted, err, sorted.Digest())
	}
	for _, c := range []struct {
		name string
		rows []note
		opts WriterOptions
		want string
		code int
	}{
		{"unsorted", []note{b, a}, WriterOptions{}, `row "a" comes after "b"`, exit.Bug},
		{"twice", []note{a, a}, WriterOptions{}, `two rows have the id "a"`, exit.Input},
		{"twice, sorting", []note{a, b, a}, WriterOptions{Sort: true}, `two rows have the id "a"`, exit.Input},
		{"no id", []note{{}}, WriterOptions{}, "row 0 has no id", exit.Input},
		{"bad text", []note{{ID: "a", Next: []string{"\xff"}}}, WriterOptions{}, `row "a": column next[0]: not valid UTF-8`, exit.Input},
		{"no blob", []note{{ID: "a", Text: record.Text{Blob: "x"}}}, WriterOptions{}, `"x" in a row is no blob`, exit.Bug},
		{"blob is missing", []note{{ID: "a", Text: record.Text{Blob: strings.Repeat("0", 64)}}}, WriterOptions{}, "blob of a row: ", exit.Bug},
		{"a row is lost", nil, WriterOptions{}, "1 rows in are not 0 rows out and 0 dropped", exit.Bug},
	} {
		_, _, err := commit(t, s, "bad", c.rows, meta(max(1, len(c.rows)), 0), c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != c.code {
			t.Errorf("%s: error %v (exit %d), want %q (exit %d)", c.name, err, exit.Code(err), c.want, c.code)
		}
	}
	if _, err := OpenIn(t.Context(), s, "bad", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("a refused commit left a version: %v", err)
	}
	if _, err := NewWriter[note](s, "a/b", WriterOptions{}); exit.Code(err) != exit.Config {
		t.Errorf("bad name: %v", err)
	}
}

func TestAbsentAndMismatched(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	one := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	two := mustCommit(t, s, "notes", []note{{ID: "a"}}, meta(1, 2), WriterOptions{})
	for _, d := range []string{one.Digest(), one.Digest()[:8], one.Digest()[:63]} {
		if v, err := OpenIn(t.Context(), s, "notes", d); err != nil || v.Digest() != one.Digest() {
			t.Errorf("open %s: %v", d, err)
		}
	}
	missing := strings.Repeat("0", 8)
	for _, c := range []struct {
		name, version string
		code          int
		want          []string
	}{
		{"absent", "", exit.Input, []string{"dataset", "/absent: not found; `orchard dataset ls "}},
		{"notes", missing, exit.Input, []string{"version 00000000: not found", one.Digest()[:12], two.Digest()[:12]}},
		{"notes", strings.Repeat("0", 64), exit.Input, []string{"not found", one.Digest()[:12]}},
		{"notes", "v1", exit.Config, []string{"8 to 64"}},
		{"no/name", "", exit.Config, []string{"letters"}},
	} {
		_, err := OpenIn(t.Context(), s, c.name, c.version)
		if exit.Code(err) != c.code || (c.code == exit.Input) != errors.Is(err, ErrNotFound) {
			t.Errorf("%s@%s: %v (exit %d)", c.name, c.version, err, exit.Code(err))
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s@%s: %q lacks %q", c.name, c.version, err, w)
			}
		}
	}
	for _, err := range Rows[other](t.Context(), one) {
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "holds note rows of version 1; expected other of version 1") {
			t.Errorf("rows of another kind: %v", err)
		}
	}
}

func TestAmbiguousVersion(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	for _, end := range []string{"0", "1"} {
		if _, err := s.Create(t.Context(), ManifestKey("n", strings.Repeat("a", 63)+end), objstore.Bytes("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := OpenIn(t.Context(), s, "n", "aaaaaaaa")
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "more than one version") {
		t.Errorf("error %v", err)
	}
}

func TestCancelledCommitWritesNothing(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	w, err := NewWriter[note](s, "notes", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, note{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, _, err := w.Commit(ctx, meta(1, 0)); !errors.Is(err, context.Canceled) || exit.Code(err) != exit.Retry {
		t.Errorf("commit: %v", err)
	}
	if err := w.Write(t.Context(), note{ID: "b"}); err == nil {
		t.Error("write after the end: no error")
	}
	for info := range s.List(t.Context(), "") {
		t.Errorf("there is %s", info.Key)
	}
}
