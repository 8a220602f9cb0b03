package arrowio

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"orchard/datasets/record"
)

func encode[R record.Row](t tester, rows []R) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter[R](&buf)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatcher[R]()
	for i, r := range rows {
		full, err := b.Add(r)
		if err == nil && (full || i == len(rows)-1) {
			err = w.Write(b.Take())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.Size(); got != int64(buf.Len()) || w.Rows() != int64(len(rows)) {
		t.Errorf("Size = %d, Rows = %d, wrote %d, %d", got, w.Rows(), buf.Len(), len(rows))
	}
	return buf.Bytes()
}

func open(file []byte) (*File, error) { return Open(bytes.NewReader(file), int64(len(file))) }

// read is the rows of a file that pass.
func read[R record.Row](file []byte, q Query) ([]R, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	d, err := Decode[R](f, q)
	if err != nil {
		return nil, err
	}
	return collect(d.All())
}

func collect[T any](seq iter.Seq2[T, error]) (out []T, err error) {
	for r, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func roundTrip[R record.Row](t tester, want []R) {
	t.Helper()
	file := encode(t, want)
	got, err := read[R](file, Query{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("rows changed (-want +got):\n%s", d)
	}
	f, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Check(f, SchemaOf[R]()); err != nil || c.Rows != int64(len(want)) {
		t.Fatalf("Check = %+v, %v", c, err)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) { roundTrip(rt, rows[everything](rt)) })
}

func TestRoundTripOfRecords(t *testing.T) {
	t.Parallel()
	for seed := range 5 {
		roundTrip(t, rapid.Custom(rows[record.Task]).Example(seed))
		roundTrip(t, rapid.Custom(rows[record.Rollout]).Example(seed))
		roundTrip(t, rapid.Custom(rows[record.SFTRow]).Example(seed))
	}
}

func TestSameRowsSameBytes(t *testing.T) {
	t.Parallel()
	in := rapid.Custom(rows[record.Rollout]).Example(1)
	if !bytes.Equal(encode(t, in), encode(t, in)) {
		t.Error("the same rows gave other bytes")
	}
}

// Nil slices, and rows enough for several batches.
func TestNilListsAreEmptyAndBatchesEnd(t *testing.T) {
	t.Parallel()
	var in []everything
	for i := range 2*batchRows + 3 {
		in = append(in, everything{ID: fmt.Sprintf("%06d", i)})
	}
	in[1].Strings = []string{strings.Repeat("é", batchBytes)} // one row that is more than a batch
	got, err := read[everything](encode(t, in), Query{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(in) {
		t.Fatalf("%d rows, want %d", len(got), len(in))
	}
	if got[0].Strings == nil || got[0].Bytes == nil || got[0].Inner.Deep == nil {
		t.Errorf("a nil list came back as nil: %+v", got[0])
	}
	if got[1].Strings[0] != in[1].Strings[0] || got[len(got)-1].ID != in[len(in)-1].ID {
		t.Error("rows changed")
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	n := int64(4)
	row := everything{ID: "a", U8: 7, Inner: inner{Ref: "r", IDs: []int32{1}, Log: []float32{}, Deep: []deep{}},
		Inners: []inner{{Ref: "x", IDs: []int32{2}, Deep: []deep{{N: &n, S: []string{"s"}}}}}}
	got, err := read[everything](encode(t, []everything{row}), Query{Columns: []string{"id", "inner.ref", "inners.deep.n"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []everything{{ID: "a", Inner: inner{Ref: "r"}, Inners: []inner{{Deep: []deep{{N: &n}}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("projection (-want +got):\n%s", d)
	}
	_, err = read[everything](encode(t, []everything{row}), Query{Columns: []string{"inner.reff"}})
	if err == nil || !strings.Contains(err.Error(), `no column "inner.reff"; there is ref, ids, log, deep`) {
		t.Errorf("unknown column: %v", err)
	}
}

func TestInvalidUTF8NamesTheColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column string
		row    everything
	}{
		{"named", everything{Named: "a\xff"}},
		{"strings.[1]", everything{Strings: []string{"", "\xc3"}}},
		{"inners.[0].deep.[1].s.[0]", everything{Inners: []inner{{Deep: []deep{{}, {S: []string{"\xff"}}}}}}},
	} {
		b := NewBatcher[everything]()
		_, err := b.Add(c.row)
		want := strings.ReplaceAll(c.column, ".[", "[")
		if err == nil || !strings.Contains(err.Error(), "column "+want+": not valid UTF-8") {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := b.Add(everything{}); err == nil {
			t.Errorf("%s: the next row forgot the error", want)
		}
	}
}

// Bytes changed in the data give rows or an error, never a panic, and a cut file
// always an error. (Changed bytes in Arrow's metadata can make it ask for more memory
// than there is: what keeps that away is the sha256, which is compared before.)
func TestDamagedDataDoesNotPanic(t *testing.T) {
	t.Parallel()
	numbers := make([][]int32, 2000)
	for i := range numbers {
		numbers[i] = []int32{int32(i * i * 7919), int32(i)}
	}
	file := encode(t, []everything{{ID: "a", Nested: numbers}, {ID: "b"}})
	body := bytes.Index(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) - 8 // the length before the first zstd frame
	for i := body; i < len(file)*2/3; i += 1 + len(file)/200 {
		broken := bytes.Clone(file)
		broken[i] ^= 0xff
		read[everything](broken, Query{})
	}
	for i := 0; i < len(file); i += 1 + len(file)/100 {
		if _, err := read[everything](file[:i], Query{}); err == nil {
			t.Errorf("cut at %d of %d: no error", i, len(file))
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteErrorIsSticky(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 10, 2000} {
		w, err := NewWriter[everything](&failing{room})
		if err == nil {
			b := NewBatcher[everything]()
			b.Add(everything{ID: "a"})
			w.Write(b.Take())
			err = w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}

func readObjects(file []byte, q Query) ([]Object, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	d, err := DecodeObjects(f, q)
	if err != nil {
		return nil, err
	}
	return collect(d.All())
}
