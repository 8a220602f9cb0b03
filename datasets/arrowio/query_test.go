package arrowio

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// paths is every dotted path of a schema, leaves that a predicate takes apart.
func paths(fields []Field, prefix string, inList bool) (all, scalars []string) {
	for _, f := range fields {
		path := prefix + f.Name
		all = append(all, path)
		switch f.Type {
		case "struct", "list":
			a, s := paths(f.members(), path+".", inList || f.Type == "list")
			all, scalars = append(all, a...), append(scalars, s...)
		default:
			if !inList {
				scalars = append(scalars, path)
			}
		}
	}
	return all, scalars
}

// at is the value of a row's field by Go's own means: nil for null.
func at(v reflect.Value, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil
			}
			v = v.Elem()
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") == name {
				v = v.Field(i)
				break
			}
		}
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	return v.Interface()
}

// naive compares as a person would write it down, by kind.
func naive(v any, op string, want any) bool {
	if v == nil || want == nil {
		return op == "==" && v == nil && want == nil || op == "!=" && (v == nil) != (want == nil)
	}
	var less, equal bool
	a, b := reflect.ValueOf(v), reflect.ValueOf(want)
	switch {
	case a.Type() == timeType:
		less, equal = v.(time.Time).Before(want.(time.Time)), v.(time.Time).Equal(want.(time.Time))
	case a.Kind() == reflect.Bool:
		less, equal = !a.Bool() && b.Bool(), a.Bool() == b.Bool()
	case a.Kind() == reflect.String:
		less, equal = a.String() < b.String(), a.String() == b.String()
	case a.Kind() == reflect.Slice:
		less, equal = string(a.Bytes()) < string(b.Bytes()), string(a.Bytes()) == string(b.Bytes())
	case a.CanFloat():
		less, equal = a.Float() < b.Float(), a.Float() == b.Float()
	case a.CanInt():
		less, equal = a.Int() < b.Int(), a.Int() == b.Int()
	default:
		less, equal = a.Uint() < b.Uint(), a.Uint() == b.Uint()
	}
	switch op {
	case "==":
		return equal
	case "!=":
		return !equal
	case "<":
		return less
	case "<=":
		return less || equal
	case ">":
		return !less && !equal
	}
	return !less
}

// Any columns and any conditions give what all rows give when they are filtered and
// cut by hand, and statistics never rule out a file that has such a row.
func TestQueriesAreExact(t *testing.T) {
	t.Parallel()
	s := SchemaOf[everything]()
	all, scalars := paths(s.Fields, "", false)
	ops := []string{"==", "!=", "<", "<=", ">", ">="}
	rapid.Check(t, func(rt *rapid.T) {
		in := rows[everything](rt)
		var q Query
		for range rapid.IntRange(0, 3).Draw(rt, "columns") {
			q.Columns = append(q.Columns, rapid.SampledFrom(all).Draw(rt, "column"))
		}
		for range rapid.IntRange(0, 2).Draw(rt, "conditions") {
			p := Predicate{Column: rapid.SampledFrom(scalars).Draw(rt, "where"), Op: rapid.SampledFrom(ops).Draw(rt, "op")}
			if len(in) > 0 {
				p.Value = at(reflect.ValueOf(rapid.SampledFrom(in).Draw(rt, "like")), p.Column)
			}
			if p.Value == nil {
				p.Op = ops[rapid.IntRange(0, 1).Draw(rt, "null op")]
			}
			q.Where = append(q.Where, p)
		}
		var want []everything
		file := encode(rt, in)
		for _, row := range in {
			passes := true
			for _, p := range q.Where {
				passes = passes && naive(at(reflect.ValueOf(row), p.Column), p.Op, p.Value)
			}
			if passes {
				want = append(want, cut(row, q.Columns))
			}
		}
		got, err := read[everything](file, q)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			rt.Fatalf("%+v (-want +got):\n%s", q, d)
		}
		objects, err := readObjects(file, q)
		if err != nil || len(objects) != len(want) {
			rt.Fatalf("%d objects, %v", len(objects), err)
		}
		f, err := open(file)
		if err != nil {
			rt.Fatal(err)
		}
		c, err := Check(f, s)
		if err != nil {
			rt.Fatal(err)
		}
		for _, p := range q.Where {
			p, err := p.Resolve(s)
			stat, known := c.Stats[p.Column]
			if err != nil || len(want) > 0 && known && !p.May(stat, c.Rows) {
				rt.Fatalf("%+v of %d rows rules out %+v, %v", stat, c.Rows, p, err)
			}
		}
	})
}

// cut is a row with the chosen fields alone, by way of its JSON.
func cut(row everything, columns []string) everything {
	if len(columns) == 0 {
		return row
	}
	var out everything
	keep(reflect.ValueOf(row), reflect.ValueOf(&out).Elem(), "", columns)
	return out
}

func keep(from, to reflect.Value, path string, columns []string) {
	for i := range from.NumField() {
		name := strings.TrimPrefix(path+"."+from.Type().Field(i).Tag.Get("json"), ".")
		whole, part := false, false
		for _, c := range columns {
			whole = whole || c == name || strings.HasPrefix(name, c+".")
			part = part || strings.HasPrefix(c, name+".")
		}
		f := from.Field(i)
		switch {
		case whole:
			to.Field(i).Set(f)
		case !part:
		case f.Kind() == reflect.Slice:
			to.Field(i).Set(reflect.MakeSlice(f.Type(), f.Len(), f.Len()))
			for j := range f.Len() {
				keep(f.Index(j), to.Field(i).Index(j), name, columns)
			}
		case f.Kind() == reflect.Pointer:
			if !f.IsNil() {
				to.Field(i).Set(reflect.New(f.Type().Elem()))
				keep(f.Elem(), to.Field(i).Elem(), name, columns)
			}
		default:
			keep(f, to.Field(i), name, columns)
		}
	}
}

// counting is how many bytes were read of a file.
type counting struct {
	io.ReaderAt
	n int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// Columns that nobody asked for are not read, and so neither are those of batches in
// which no row passes.
func TestProjectionReadsNoMore(t *testing.T) {
	t.Parallel()
	var in []everything
	source := rand.NewChaCha8([32]byte{})
	raw := make([]byte, 1<<20)
	source.Read(raw)
	random := hex.EncodeToString(raw)
	for i := range 3000 {
		in = append(in, everything{ID: fmt.Sprintf("%06d", i), Named: outcome(random[i*600:][:500]), Strings: []string{random[i*600:][:500]}, I8: 1})
	}
	file := encode(t, in)
	for _, c := range []struct {
		q    Query
		most int
	}{
		{Query{Columns: []string{"id", "i8"}}, len(file) / 5},
		{Query{Where: []Predicate{{Column: "i8", Op: "==", Value: 2}}}, len(file) / 5},
	} {
		r := &counting{ReaderAt: bytes.NewReader(file)}
		f, err := Open(r, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode[everything](f, c.q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(d.All())
		if err != nil || len(got) != 3000 && c.q.Where == nil || len(got) != 0 && c.q.Where != nil {
			t.Fatalf("%d rows, %v", len(got), err)
		}
		if r.n > int64(c.most) {
			t.Errorf("%+v read %d bytes of %d", c.q, r.n, len(file))
		}
	}
}

func TestPredicatesAreChecked(t *testing.T) {
	t.Parallel()
	s := SchemaOf[everything]()
	for _, c := range []struct {
		p    Predicate
		want string
	}{
		{Predicate{"named", "~", "x", ""}, `operator "~"`},
		{Predicate{"names", "==", "x", ""}, `no column "names"`},
		{Predicate{"strings", "==", "x", ""}, "single values"},
		{Predicate{"inners.ref", "==", "x", ""}, "single values"},
		{Predicate{"inner", "==", "x", ""}, "single values"},
		{Predicate{"i8", "==", "1", ""}, "1 (string) is no int8"},
		{Predicate{"i8", "==", 1.5, ""}, "1.5 (float64) is no int8"},
		{Predicate{"named", "<", nil, ""}, "null is only compared"},
		{Predicate{"at", "<", "2020", ""}, "is no timestamp"},
	} {
		if _, err := c.p.Resolve(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
	}
	for _, p := range []Predicate{{"u64", ">", uint64(1 << 63), ""}, {"f32", "<", 2, ""}, {"named", "==", outcome("x"), ""}, {"inner.ref", "!=", nil, ""}, {"maybe", ">", time.Now(), ""}} {
		if _, err := p.Resolve(s); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// Statistics of what must not decide a manifest, or cannot be a bound, are left out.
func TestStatistics(t *testing.T) {
	t.Parallel()
	f := math.NaN()
	u := uint32(7)
	file := encode(t, []everything{
		{ID: "a", I8: -3, U64: math.MaxUint64, Named: "x", F64: &f, At: time.UnixMicro(5), U32: &u, Inner: inner{Ref: strings.Repeat("l", 65)}},
		{ID: "b", I8: 4, U64: 1, Named: "é<", F32: 2},
	})
	r, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Check(r, SchemaOf[everything]())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"id": `{"min":"a","max":"b"}`, "i8": `{"min":-3,"max":4}`, "u64": `{"min":1,"max":18446744073709551615}`, "named": `{"min":"x","max":"é\u003c"}`,
		"f64": `{"nulls":1}`, "f32": `{"min":0,"max":2}`, "u32": `{"nulls":1,"min":7,"max":7}`, "at": "absent", "inner.ref": "absent", "bytes": "absent",
		"inner_p.ref": `{"nulls":2}`, "inners": "absent",
	} {
		got := "absent"
		if s, ok := c.Stats[path]; ok {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
