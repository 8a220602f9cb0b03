package arrowio

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// small is a row that other programs' files are made of by hand here.
type small0 struct {
	ID    string   `json:"id"`
	Texts []string `json:"texts"`
}

func (s small0) Key() string         { return s.ID }
func (small0) Schema() (string, int) { return "small", 1 }

// handmade is a file of small0 rows, filled without any check.
func handmade(t *testing.T, fill func(id *array.LargeStringBuilder, texts *array.ListBuilder), opts ...ipc.Option) []byte {
	t.Helper()
	c := codecOf[small0]()
	b := array.NewRecordBuilder(memory.DefaultAllocator, c.arrowSchema())
	fill(b.Field(0).(*array.LargeStringBuilder), b.Field(1).(*array.ListBuilder))
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&counter{w: &buf}, append(opts, ipc.WithSchema(c.arrowSchema()))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(b.NewRecord()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Text of another program that is no UTF-8 is refused by column and value, also where
// two values are right only together.
func TestForeignTextIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fill func(id *array.LargeStringBuilder, texts *array.ListBuilder)
		want string
	}{
		{"id", func(id *array.LargeStringBuilder, texts *array.ListBuilder) {
			id.AppendValues([]string{"a", "b\xff"}, nil)
			texts.Append(true)
			texts.Append(true)
		}, "column id: value 1 is not valid UTF-8"},
		{"halves", func(id *array.LargeStringBuilder, texts *array.ListBuilder) {
			id.Append("a")
			texts.Append(true)
			v := texts.ValueBuilder().(*array.LargeStringBuilder)
			v.AppendValues([]string{"x", "\xc3", "\xa9"}, nil)
		}, "column texts: value 2 is not valid UTF-8"},
	} {
		file := handmade(t, c.fill, ipc.WithZstd())
		if _, err := read[small0](file, Query{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		f, err := open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Check(f, SchemaOf[small0]()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Batches that are not compressed are read as well; another codec is refused by name.
func TestForeignPacking(t *testing.T) {
	t.Parallel()
	fill := func(id *array.LargeStringBuilder, texts *array.ListBuilder) {
		id.Append("a")
		texts.Append(true)
		texts.ValueBuilder().(*array.LargeStringBuilder).Append("text")
	}
	for _, opts := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithZstd(), ipc.WithMinSpaceSavings(0.9)}} {
		got, err := read[small0](handmade(t, fill, opts...), Query{})
		if err != nil || len(got) != 1 || got[0].ID != "a" || got[0].Texts[0] != "text" {
			t.Errorf("%v, %v", got, err)
		}
	}
	_, err := read[small0](handmade(t, fill, ipc.WithLZ4()), Query{})
	if err == nil || !strings.Contains(err.Error(), "compressed with codec 0; shards use zstd") {
		t.Errorf("lz4: %v", err)
	}
}

// A file of another shape is refused, not read past its end; a length that asks for more
// than any batch has is refused before memory is taken.
func TestForeignShapes(t *testing.T) {
	t.Parallel()
	dict := arrow.NewSchema([]arrow.Field{{Name: "id", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}}}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, dict, strings.NewReader(`[{"id":"a"}]`))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := ipc.NewFileWriter(&counter{w: &buf}, ipc.WithSchema(dict))
	if err == nil {
		err = w.Write(rec)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(buf.Bytes()); err == nil || !strings.Contains(err.Error(), "dictionaries") {
		t.Errorf("dictionaries: %v", err)
	}
	file := encode(t, []small0{{ID: "a", Texts: []string{strings.Repeat("x", 1000)}}})
	at := bytes.LastIndex(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) - 8 // the length before the last zstd frame
	for _, size := range []byte{0x7f, 0x01} {
		broken := bytes.Clone(file)
		copy(broken[at:], []byte{0, 0, 0, 0, size, 0, 0, 0})
		if _, err := read[small0](broken, Query{}); err == nil || !strings.Contains(err.Error(), "more than any batch has") {
			t.Errorf("length %x: %v", size, err)
		}
	}
}
