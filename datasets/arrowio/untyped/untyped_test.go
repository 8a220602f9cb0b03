package untyped

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"orchard/datasets/arrowio"
)

type row struct {
	ID    string     `json:"id"`
	Blob  string     `json:"blob" blob:"true"`
	N     int64      `json:"n" volatile:"true"`
	Huge  uint64     `json:"huge"`
	At    *time.Time `json:"at"`
	Turns []turn     `json:"turns"`
}

type turn struct {
	Role string   `json:"role"`
	Raw  []byte   `json:"raw"`
	F    *float32 `json:"f"`
}

func (r row) Key() string         { return r.ID }
func (row) Schema() (string, int) { return "row", 2 }

func good(id string) arrowio.Object {
	return arrowio.Object{{Name: "id", Value: id}, {Name: "blob", Value: ""}, {Name: "n", Value: int64(1)}, {Name: "huge", Value: uint64(1) << 63}, {Name: "at", Value: time.Unix(0, 0)},
		{Name: "turns", Value: []any{arrowio.Object{{Name: "role", Value: "x"}, {Name: "raw", Value: []byte{0xff}}, {Name: "f", Value: nil}}}}}
}

// An Arrow file of all columns is what a shard is: arrowio reads it as one, also with no
// rows, and it has the schema to the last mark.
func TestIPCIsLikeAShard(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 10_000} {
		var buf bytes.Buffer
		w, err := NewIPC(&buf, arrowio.SchemaOf[row](), 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := w.Write(good(fmt.Sprintf("%05d", i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := arrowio.Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		c, err := arrowio.Check(f, arrowio.SchemaOf[row]())
		if err != nil || c.Rows != int64(n) || w.Rows() != int64(n) {
			t.Errorf("%d rows: %d, %v", n, c.Rows, err)
		}
	}
}

func TestWrongRowsAreRefused(t *testing.T) {
	t.Parallel()
	change := func(i int, v any) arrowio.Object {
		o := good("a")
		o[i].Value = v
		return o
	}
	inner := func(i int, v any) arrowio.Object {
		o := good("a")
		o[5].Value.([]any)[0].(arrowio.Object)[i].Value = v
		return o
	}
	for _, c := range []struct {
		row  arrowio.Object
		want string
	}{
		{good("a")[1:], "5 values for 6 columns"},
		{change(0, nil), "id: is null and may not be"},
		{change(0, "\xff"), "id: is not valid UTF-8"},
		{change(0, int64(1)), "id: the value is of another type"},
		{change(2, "1"), "n: the value is of another type"},
		{change(3, 1.5), "huge: the value is of another type"},
		{change(5, nil), "turns: is null"},
		{change(5, "x"), "turns: the value is of another type"},
		{change(5, []any{nil}), "turns: [0]: is null"},
		{inner(0, nil), "turns: [0]: role: is null"},
		{inner(1, "x"), "turns: [0]: raw: the value is of another type"},
		{inner(2, 1.5), "turns: [0]: f: the value is of another type"},
	} {
		w, err := NewIPC(&bytes.Buffer{}, arrowio.SchemaOf[row](), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(c.row); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "row 0") {
			t.Errorf("%v, want %s", err, c.want)
		}
		if err := w.Write(good("b")); err == nil {
			t.Error("a broken writer goes on")
		}
	}
}
