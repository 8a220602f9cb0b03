package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

type note struct {
	ID     string   `json:"id"`
	Text   string   `json:"text"`
	N      *int64   `json:"n"`
	List   []item   `json:"list"`
	Inside inside   `json:"inside"`
	Time   int64    `json:"time" volatile:"true"`
	Ratio  float64  `json:"ratio"`
	Tags   []string `json:"tags"`
}

type item struct {
	Name string `json:"name"`
	MS   int64  `json:"ms" volatile:"true"`
}

type inside struct {
	A string `json:"a"`
	B bool   `json:"b"`
}

func (n note) Key() string         { return n.ID }
func (note) Schema() (string, int) { return "note", 1 }

type helper interface {
	Helper()
	Fatal(...any)
}

func commit[R record.Row](t helper, s objstore.Store, seed int64, rows []R) *datasets.Version {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	w, err := datasets.NewWriter[R](s, "notes", datasets.WriterOptions{ShardBytes: 1}) // a shard a batch
	must(err)
	defer w.Close()
	for _, r := range rows {
		must(w.Write(ctx, r))
	}
	digest, _, err := w.Commit(ctx, datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1, Seed: seed}, RowsIn: int64(len(rows))})
	must(err)
	v, err := datasets.OpenIn(ctx, s, "notes", digest)
	must(err)
	return v
}

// naive compares without any merging.
func naive(a, b []note, volatile bool) (out []Change, same int64) {
	find := func(rows []note, id string) (note, bool) {
		i := slices.IndexFunc(rows, func(n note) bool { return n.ID == id })
		if i < 0 {
			return note{}, false
		}
		return rows[i], true
	}
	var ids []string
	for _, n := range append(slices.Clone(a), b...) {
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		x, inA := find(a, id)
		y, inB := find(b, id)
		var columns []string
		add := func(name string, x, y any) {
			if !cmp.Equal(x, y) {
				columns = append(columns, name)
			}
		}
		add("text", x.Text, y.Text)
		add("n", x.N, y.N)
		if !volatile {
			for _, list := range [][]item{x.List, y.List} {
				for i := range list {
					list[i].MS = 0
				}
			}
		}
		add("list", x.List, y.List)
		add("inside.a", x.Inside.A, y.Inside.A)
		add("inside.b", x.Inside.B, y.Inside.B)
		if volatile {
			add("time", x.Time, y.Time)
		}
		add("ratio", x.Ratio, y.Ratio)
		add("tags", x.Tags, y.Tags)
		switch {
		case !inA:
			out = append(out, Change{ID: id, What: Added})
		case !inB:
			out = append(out, Change{ID: id, What: Removed})
		case len(columns) > 0:
			out = append(out, Change{ID: id, What: Changed, Columns: columns})
		default:
			same++
		}
	}
	return out, same
}

var drawRow = rapid.Custom(func(t *rapid.T) note {
	n := note{
		Text: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text"),
		List: []item{}, Tags: []string{},
		Time:   rapid.Int64Range(0, 1).Draw(t, "time"),
		Ratio:  rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "ratio"),
		Inside: inside{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "a"), rapid.Bool().Draw(t, "b")},
	}
	if rapid.Bool().Draw(t, "known") {
		v := rapid.Int64Range(0, 1).Draw(t, "n")
		n.N = &v
	}
	for range rapid.IntRange(0, 2).Draw(t, "items") {
		n.List = append(n.List, item{rapid.SampledFrom([]string{"p", "q"}).Draw(t, "name"), rapid.Int64Range(0, 1).Draw(t, "ms")})
		n.Tags = append(n.Tags, "t")
	}
	return n
})

// TestMergeIsTheNaiveComparison draws two versions, many of whose rows and shards are the
// same, and compares with a comparison that knows nothing of order or shards.
func TestMergeIsTheNaiveComparison(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var a, b []note
		for i := range rapid.IntRange(0, 12).Draw(t, "rows") {
			n := drawRow.Draw(t, "row")
			n.ID = fmt.Sprintf("%03d", i)
			where := rapid.IntRange(0, 5).Draw(t, "where")
			if where != 0 {
				a = append(a, n)
			}
			if where >= 4 {
				n = drawRow.Draw(t, "other")
				n.ID = fmt.Sprintf("%03d", i)
			}
			if where != 1 {
				b = append(b, n)
			}
		}
		volatile := rapid.Bool().Draw(t, "volatile")
		s := &mem.Store{}
		va, vb := commit(t, s, 1, a), commit(t, s, 2, b)
		var got []Change
		d, err := Versions(context.Background(), va, vb, Options{Volatile: volatile, Change: func(c Change) error { got = append(got, c); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		want, same := naive(a, b, volatile)
		if diff := cmp.Diff(want, got); diff != "" || d.Rows.Same != same {
			t.Fatalf("%d the same, want %d: %s", d.Rows.Same, same, diff)
		}
		if d.Equal() != (len(want) == 0) {
			t.Fatalf("equal: %v with %d changes", d.Equal(), len(want))
		}
	})
}

// TestSharedShardsAreNotRead removes the shards that both have.
func TestSharedShardsAreNotRead(t *testing.T) {
	t.Parallel()
	var rows []note
	for i := range 9000 { // a batch, and so a shard here, has 4096
		rows = append(rows, note{ID: fmt.Sprintf("%05d", i), Text: strings.Repeat("x", i%7), List: []item{}, Tags: []string{}})
	}
	s := &mem.Store{}
	a := commit(t, s, 1, rows)
	rows = slices.Clone(rows)
	rows[5000].Text = "changed"
	b := commit(t, s, 2, rows)
	shared := 0
	for _, x := range a.Manifest().Shards {
		for _, y := range b.Manifest().Shards {
			if x.SHA256 == y.SHA256 {
				shared++
				if err := s.Delete(t.Context(), "notes/data/"+x.SHA256+".arrow"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	d, err := Versions(t.Context(), a, b, Options{})
	if err != nil || shared != 2 || d.Rows.Same != 8999 || d.Rows.Changed != 1 || d.Rows.Columns["text"] != 1 {
		t.Errorf("%d shards shared, %+v, %v", shared, d.Rows, err)
	}
}

// renamed has ids in a column of another name.
type renamed struct {
	Name  string  `json:"name"`
	Ratio float64 `json:"ratio"`
	ID    string  `json:"id"`
}

func (r renamed) Key() string         { return r.Name }
func (renamed) Schema() (string, int) { return "renamed", 1 }

// TestOtherKinds compares rows of two kinds by their ids, and the columns that both have.
func TestOtherKinds(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	a := commit(t, s, 1, []note{{ID: "a", Ratio: 1, List: []item{}, Tags: []string{}}, {ID: "b", List: []item{}, Tags: []string{}}})
	b := commit(t, s, 2, []renamed{{Name: "b", ID: "b"}, {Name: "c", ID: "a", Ratio: 1}})
	var got []Change
	d, err := Versions(t.Context(), a, b, Options{Change: func(c Change) error { got = append(got, c); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Change{{ID: "a", What: Removed}, {ID: "c", What: Added}}, got); diff != "" || d.Rows.Same != 1 {
		t.Errorf("%+v %s", d.Rows, diff)
	}
	if i := slices.IndexFunc(d.Columns, func(c Column) bool { return c.Name == "name" && c.A == "" }); i < 0 {
		t.Errorf("columns %+v", d.Columns)
	}
}
