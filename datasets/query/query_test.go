package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/internal/exit"
	"orchard/internal/objstore/mem"
)

type row struct {
	ID     string     `json:"id"`
	N      *int64     `json:"n"`
	Huge   uint64     `json:"huge"`
	Single float32    `json:"single"`
	Ratio  float64    `json:"ratio"`
	Yes    bool       `json:"yes"`
	At     *time.Time `json:"at"`
	Raw    []byte     `json:"raw"`
	Tags   []string   `json:"tags"`
	Turns  []turn     `json:"turns"`
	Inside inside     `json:"inside"`
}

type turn struct {
	Role  string `json:"role"`
	Calls []call `json:"calls"`
}

type call struct {
	Name string `json:"name"`
	Exit *int64 `json:"exit"`
}

type inside struct {
	Text string `json:"text"`
	M    *int64 `json:"m"`
}

func (r row) Key() string         { return r.ID }
func (row) Schema() (string, int) { return "row", 1 }

func n(i int64) *int64 { return &i }

func version(t *testing.T) *datasets.Version {
	t.Helper()
	day := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	rows := []row{
		{ID: "a", Turns: []turn{}, Tags: []string{}, Ratio: math.NaN()},
		{ID: "b", N: n(5), Huge: math.MaxUint64, Single: 0.1, Ratio: 0.1, Yes: true, At: &day, Tags: []string{"x", "null"},
			Turns: []turn{{"user", []call{}}, {"tool", []call{{"bash", n(1)}, {"edit", nil}}}}, Inside: inside{"ab=c", n(1 << 60)}},
		{ID: "c", N: n(-5), Huge: 1, Ratio: -2, Tags: []string{"y"}, Turns: []turn{{"user", []call{{"bash", n(0)}}}}, Inside: inside{"null", nil}},
	}
	s := &mem.Store{}
	w, err := datasets.NewWriter[row](s, "rows", datasets.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, r := range rows {
		r.Raw = []byte{}
		if err := w.Write(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	digest, _, err := w.Commit(t.Context(), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: 3})
	if err != nil {
		t.Fatal(err)
	}
	v, err := datasets.OpenIn(t.Context(), s, "rows", digest)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ids(t *testing.T, v *datasets.Version, columns []string, where ...string) string {
	t.Helper()
	q, err := New(v.Manifest().Schema, columns, where)
	if err != nil {
		t.Fatalf("%q: %v", where, err)
	}
	var out []string
	for r, err := range q.Scan(context.Background(), v, "") {
		if err != nil {
			t.Fatalf("%q: %v", where, err)
		}
		out = append(out, r.ID)
	}
	return strings.Join(out, "")
}

// TestConditions asks each with and without columns: then the column of the condition is
// not among those that are given out.
func TestConditions(t *testing.T) {
	t.Parallel()
	v := version(t)
	for where, want := range map[string]string{
		"id=b": "b", "id!=b": "ac", "id>a": "bc", "id<=b": "ab", "id~b": "b", "id~": "abc", "id=": "",
		"n=5": "b", "n!=5": "ac", "n<0": "c", "n>=-5": "bc", "n=null": "a", "n!=null": "bc",
		"huge=18446744073709551615": "b", "huge>1": "b", "huge<=1": "ac",
		"single=0.1": "b", "ratio=0.1": "b", "ratio<0": "c", "ratio!=0.1": "ac", "ratio>=0": "b",
		"yes=true": "b", "yes=false": "ac", "yes!=true": "ac",
		"at=2026-01-02T03:04:05.6Z": "b", "at>2026-01-02": "b", "at<2026-01-02": "", "at=null": "ac",
		"tags=x": "b", "tags!=x": "ac", "tags=null": "", `tags="null"`: "b", "tags~y": "c",
		"turns.role=tool": "b", "turns.role!=tool": "ac", "turns.calls.name=bash": "bc", "turns.calls.exit=0": "c", "turns.calls.exit=null": "b", "turns.calls.exit>0": "b",
		"inside.text=ab=c": "b", " inside.text = ab=c ": "b", `inside.text="null"`: "c", "inside.m=1152921504606846976": "b", "inside.m!=1152921504606846976": "ac",
	} {
		for _, columns := range [][]string{nil, {"inside.m"}, {"tags"}} {
			if got := ids(t, v, columns, where); got != want {
				t.Errorf("%s with columns %q: %q, want %q", where, columns, got, want)
			}
		}
	}
	if got := ids(t, v, nil, "n>=-5", "tags=y"); got != "c" {
		t.Errorf("both: %q", got)
	}
}

func TestBadConditions(t *testing.T) {
	t.Parallel()
	s := version(t).Manifest().Schema
	for where, want := range map[string]string{
		"":           "must look like",
		"id":         "must look like",
		"=3":         "must look like",
		"no=3":       `no column "no"`,
		"n=x":        "no whole number",
		"n=1.5":      "no whole number",
		"huge=-1":    "no number",
		"ratio=x":    "no number",
		"yes=maybe":  "neither true nor false",
		"at=now":     "no time",
		"raw=x":      "compared with null only",
		"turns=x":    "compared with null only",
		"inside=x":   "compared with null only",
		"n~5":        "is no text but int64",
		"n<null":     "null can be compared",
		`id="x`:      "no quoted text",
		"turns.x=1":  `no column "turns.x"`,
		"tags.x.y=1": `no column "tags.x.y"`,
	} {
		_, err := New(s, nil, []string{where})
		if exit.Code(err) != exit.Config || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %s", where, err, want)
		}
	}
	if _, err := New(s, []string{"nope"}, nil); exit.Code(err) != exit.Config {
		t.Errorf("a column that is not there: %v", err)
	}
}

// TestColumns keeps what is nested nested, and in the order of the schema.
func TestColumns(t *testing.T) {
	t.Parallel()
	v := version(t)
	q, err := New(v.Manifest().Schema, []string{"turns.calls.exit", "n", "inside.text", "inside", "tags"}, []string{"id=b"})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range q.Scan(t.Context(), v, "a") {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.Object.MarshalJSON()
		want := `{"n":5,"tags":["x","null"],"turns":[{"calls":[]},{"calls":[{"exit":1},{"exit":null}]}],"inside":{"text":"ab=c","m":1152921504606846976}}`
		if err != nil || string(raw) != want {
			t.Errorf("%s, %v", raw, err)
		}
	}
	names := func(fields []arrowio.Field) (out []string) {
		for _, f := range fields {
			out = append(out, f.Name)
		}
		return out
	}
	if d := cmp.Diff([]string{"n", "tags", "turns", "inside"}, names(q.Schema().Fields)); d != "" {
		t.Error(d)
	}
	turns := q.Schema().Fields[2].Fields[0]
	if !slices.Equal(names(turns.Fields), []string{"calls"}) || !slices.Equal(names(turns.Fields[0].Fields[0].Fields), []string{"exit"}) {
		t.Errorf("turns: %+v", turns)
	}
}

// TestNoID: a version of another program whose first column is no text has no ids to go
// on from.
func TestNoID(t *testing.T) {
	t.Parallel()
	s := arrowio.SchemaOf[row]()
	s.Fields = s.Fields[1:]
	for s.Fields[0].Type == "string" {
		s.Fields = s.Fields[1:]
	}
	if _, err := New(s, nil, nil); exit.Code(err) != exit.Input {
		t.Errorf("%v", err)
	}
}
