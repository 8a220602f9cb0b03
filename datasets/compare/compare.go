// Package compare finds what two versions differ in: schema, counts, and rows by id. Rows
// are sorted by id in both, so they are merged as they are read, and memory does not grow
// with them; a shard that both have is not read at all.
package compare

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"orchard/datasets"
	"orchard/datasets/arrowio"
)

// Difference is what two versions differ in, but for the rows, which are told one by one.
type Difference struct {
	A, B    string // their URIs
	Columns []Column
	Counts  []Count
	Rows    Rows
}

// Column is a difference of the schemas, by dotted path.
type Column struct {
	Name string `json:"name"`
	A    string `json:"a"` // what it is, "" when it is not there
	B    string `json:"b"`
}

// Count is a number that the manifests differ in.
type Count struct {
	Name string `json:"name"`
	A    int64  `json:"a"`
	B    int64  `json:"b"`
}

// Rows counts rows by what became of them from A to B.
type Rows struct {
	Same    int64            `json:"same"`
	Added   int64            `json:"added"`
	Removed int64            `json:"removed"`
	Changed int64            `json:"changed"`
	Columns map[string]int64 `json:"columns"` // in how many changed rows a column differs
}

// Equal says that no difference was found.
func (d Difference) Equal() bool {
	return len(d.Columns) == 0 && len(d.Counts) == 0 && d.Rows.Added+d.Rows.Removed+d.Rows.Changed == 0
}

// The kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is a row that is in one version only, or in both and not the same.
type Change struct {
	ID      string   `json:"id"`
	What    string   `json:"change"`            // one of the above
	Columns []string `json:"columns,omitempty"` // that differ in a changed row, by dotted path
}

// Options say what counts.
type Options struct {
	Volatile bool // columns that may differ between two runs of the same work, as well
	// Change is told each row that differs, in the order of ids. Its error ends the
	// comparison. May be nil.
	Change func(Change) error
}

// Versions compares two versions. A column that only one has makes the schemas differ,
// and not every row.
func Versions(ctx context.Context, a, b *datasets.Version, o Options) (Difference, error) {
	ma, mb := a.Manifest(), b.Manifest()
	d := Difference{A: a.Location().String(), B: b.Location().String(), Rows: Rows{Columns: map[string]int64{}}}
	d.Columns = schemas(ma.Schema, mb.Schema)
	d.Counts = counts(ma, mb)
	if a.Digest() == b.Digest() {
		d.Rows.Same = ma.Rows
		return d, nil
	}
	common := both(ma.Schema.Fields, mb.Schema.Fields, o.Volatile)
	return d, merge(ctx, a, b, common, o.Change, &d.Rows)
}

func counts(a, b datasets.Manifest) []Count {
	var out []Count
	add := func(name string, a, b int64) {
		if a != b {
			out = append(out, Count{name, a, b})
		}
	}
	add("rows", a.Rows, b.Rows)
	add("rows in", a.RowsIn, b.RowsIn)
	reasons := map[string]bool{}
	for _, dropped := range []map[string]int64{a.Dropped, b.Dropped} {
		for reason := range dropped {
			reasons[reason] = true
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		add("dropped: "+reason, a.Dropped[reason], b.Dropped[reason])
	}
	return out
}

// schemas is the columns that differ, in the order of A and then of B.
func schemas(a, b arrowio.Schema) []Column {
	var out []Column
	if a.Name != b.Name || a.Version != b.Version {
		out = append(out, Column{"(kind)", fmt.Sprintf("%s version %d", a.Name, a.Version), fmt.Sprintf("%s version %d", b.Name, b.Version)})
	}
	return append(out, fields(a.Fields, b.Fields, "")...)
}

func fields(a, b []arrowio.Field, path string) []Column {
	var out []Column
	for _, f := range a {
		i := slices.IndexFunc(b, func(g arrowio.Field) bool { return g.Name == f.Name })
		if i < 0 {
			out = append(out, Column{path + f.Name, words(f), ""})
			continue
		}
		if words(f) != words(b[i]) {
			out = append(out, Column{path + f.Name, words(f), words(b[i])})
			continue
		}
		out = append(out, fields(inner(f), inner(b[i]), path+f.Name+".")...)
	}
	for _, g := range b {
		if !slices.ContainsFunc(a, func(f arrowio.Field) bool { return f.Name == g.Name }) {
			out = append(out, Column{path + g.Name, "", words(g)})
		}
	}
	return out
}

// inner is the fields of a struct, or of the structs of a list.
func inner(f arrowio.Field) []arrowio.Field {
	if f.Type == "list" {
		return inner(f.Fields[0])
	}
	return f.Fields
}

// words is what a column is, without what is in its structs.
func words(f arrowio.Field) string {
	s := f.Type
	if f.Type == "list" {
		s = "list of " + words(f.Fields[0])
	}
	if f.Nullable {
		s += ", may be null"
	}
	if f.Volatile {
		s += ", volatile"
	}
	return s
}

// both is the fields that two schemas share, without volatile ones unless these count.
func both(a, b []arrowio.Field, volatile bool) []arrowio.Field {
	var out []arrowio.Field
	for _, f := range a {
		i := slices.IndexFunc(b, func(g arrowio.Field) bool { return g.Name == f.Name })
		if i < 0 || (f.Volatile || b[i].Volatile) && !volatile || f.Type != b[i].Type {
			continue
		}
		switch f.Type {
		case "struct":
			f.Fields = both(f.Fields, b[i].Fields, volatile)
		case "list":
			f.Fields = both(
				[]arrowio.Field{named(f.Fields[0])}, []arrowio.Field{named(b[i].Fields[0])}, volatile)
			if len(f.Fields) == 0 {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

func named(f arrowio.Field) arrowio.Field {
	f.Name = "item"
	return f
}

// paths is every column of fields that holds values itself.
func paths(fields []arrowio.Field, path string, out []string) []string {
	for _, f := range fields {
		if below := inner(f); len(below) > 0 {
			out = paths(below, path+f.Name+".", out)
		} else {
			out = append(out, path+f.Name)
		}
	}
	return out
}

// rows yields the rows of a version, and lets its caller stop and ask.
func rows(ctx context.Context, v *datasets.Version, o ...datasets.Option) (next func() (arrowio.Object, error, bool), stop func()) {
	return iter.Pull2(datasets.Objects(ctx, v, o...))
}
