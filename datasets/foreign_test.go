package datasets

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/seal"
)

// The rows here claim to be notes; another program could have written them.
type (
	wrongType struct {
		ID   string      `json:"id"`
		Text record.Text `json:"text"`
		Next []string    `json:"next"`
		N    *string     `json:"n"`
	}
	noColumn struct {
		ID string `json:"id"`
		N  *int64 `json:"n"`
	}
	newer struct {
		ID   string      `json:"id"`
		Text record.Text `json:"text"`
		Next []string    `json:"next"`
		N    *int64      `json:"n"`
		More *string     `json:"more"`
	}
	older0 struct {
		ID   string      `json:"id"`
		Text record.Text `json:"text"`
		Next []string    `json:"next"`
	}
)

func (r wrongType) Key() string         { return r.ID }
func (wrongType) Schema() (string, int) { return "note", 1 }
func (r noColumn) Key() string          { return r.ID }
func (noColumn) Schema() (string, int)  { return "note", 1 }
func (r newer) Key() string             { return r.ID }
func (newer) Schema() (string, int)     { return "note", 1 }
func (r older0) Key() string            { return r.ID }
func (older0) Schema() (string, int)    { return "note", 1 }

// plant stores a version whose only shard is made of rows as they come, unchecked, with
// a manifest that agrees with it.
func plant[R record.Row](t *testing.T, s objstore.Store, change func(*Shard), rows ...R) *Version {
	t.Helper()
	var buf bytes.Buffer
	w, err := arrowio.NewWriter[R](&buf)
	if err != nil {
		t.Fatal(err)
	}
	b := arrowio.NewBatcher[R]()
	for _, r := range rows {
		if _, err := b.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(b.Take()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	shard := Shard{SHA256: seal.Bytes(buf.Bytes()), Bytes: int64(buf.Len()), Rows: int64(len(rows)), FirstKey: rows[0].Key(), LastKey: rows[len(rows)-1].Key(), Stats: w.Stats()}
	if change != nil {
		change(&shard)
	}
	m := Manifest{Content: Content{Format: Format, Features: []string{}, Schema: arrowio.SchemaOf[R](), Rows: shard.Rows, Bytes: shard.Bytes, Shards: []Shard{shard},
		RowsIn: shard.Rows, Dropped: map[string]int64{}, Inputs: []Input{}, Stage: Stage{Name: "foreign", Config: []byte("{}")}, Key: strings.Repeat("0", 64)}, Run: Run{InputURIs: []string{}}}
	raw, digest, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	for key, body := range map[string][]byte{ShardKey("notes", shard.SHA256): buf.Bytes(), ManifestKey("notes", digest): raw} {
		if _, err := s.Create(t.Context(), key, objstore.Bytes(body)); err != nil {
			t.Fatal(err)
		}
	}
	v, err := OpenIn(t.Context(), s, "notes", digest)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// refused reads and verifies, and wants the same complaint of both; of one alone when
// the other cannot see it.
func refused(t *testing.T, v *Version, read, verify string) {
	t.Helper()
	var last error
	for _, err := range Rows[note](t.Context(), v) {
		last = err
	}
	if read == "" && last != nil || read != "" && (exit.Code(last) != exit.Input || !strings.Contains(last.Error(), read)) {
		t.Errorf("reading: %v, want %q", last, read)
	}
	r, err := Verify(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Problems); verify == "" && len(r.Problems) > 0 || verify != "" && (len(r.Problems) != 1 || !strings.Contains(got, verify)) {
		t.Errorf("verify: %s, want %q", got, verify)
	}
}

func TestForeignShards(t *testing.T) {
	t.Parallel()
	refused(t, plant(t, &mem.Store{}, nil, wrongType{ID: "a"}), "column n: holds large_utf8, expected int64", "")
	refused(t, plant(t, &mem.Store{}, nil, noColumn{ID: "a"}), "column text is missing", "")
	refused(t, plant(t, &mem.Store{}, nil, newer{ID: "a"}), "", "")
	refused(t, plant(t, &mem.Store{}, nil, older0{ID: "a"}), "", "")
	refused(t, plant(t, &mem.Store{}, nil, note{ID: "a"}, note{ID: "b"}, note{ID: "b"}), `the row with id "b" comes after "b"`, `row 2: two rows have the id "b"`)
	refused(t, plant(t, &mem.Store{}, nil, note{ID: "b"}, note{ID: "a"}, note{ID: "c"}), `the row with id "a" comes after "b"`, `row 1: "a" comes after "b"`)
	refused(t, plant(t, &mem.Store{}, func(s *Shard) { s.LastKey = "z" }, note{ID: "a"}), "", `has the ids "a" to "a", expected "a" to "z"`)
	n := int64(5)
	refused(t, plant(t, &mem.Store{}, func(s *Shard) {
		s.Stats["n"] = arrowio.Stat{Min: []byte("6"), Max: []byte("7")}
	}, note{ID: "a", N: &n}), "", "column n has 0 nulls and values from 5 to 5, its statistics say 0 and 6 to 7")
	refused(t, plant(t, &mem.Store{}, func(s *Shard) { s.Stats = nil }, note{ID: "a", N: &n}), "", "")
}

// A list that is empty in all rows of the first shard has its type all the same.
func TestEmptyListsFirst(t *testing.T) {
	t.Parallel()
	rows := many(5000)
	rows[4999].Next = []string{"x", "", "é"}
	v := mustCommit(t, &mem.Store{}, "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1})
	if len(v.Manifest().Shards) != 2 {
		t.Fatalf("%d shards", len(v.Manifest().Shards))
	}
	if d := cmp.Diff(rows, readRows[note](t, v)); d != "" {
		t.Error(d)
	}
	n := 0
	for o, err := range Objects(t.Context(), v, WithColumns("next"), Where("id", "==", "004999")) {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(arrowio.Object{{Name: "next", Value: []any{"x", "", "é"}}}, o); d != "" {
			t.Error(d)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d rows", n)
	}
}
