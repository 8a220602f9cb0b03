package arrowio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
)

func each[R any](rows []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func parquetOf[R record.Row](t tester, rows []R) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteParquet(&buf, each(rows)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func readParquet(t tester, file []byte) []map[string]any {
	t.Helper()
	got, err := collect(ReadParquet(context.Background(), bytes.NewReader(file), int64(len(file))))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// asJSON is a row in the shape ReadParquet gives, by way of an IPC file.
func asJSON[R record.Row](t tester, rows []R) []map[string]any {
	t.Helper()
	var out []map[string]any
	objects, err := readObjects(encode(t, rows), Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		out = append(out, plain(o).(map[string]any))
	}
	return out
}

func TestParquetRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := rows[everything](rt)
		if d := cmp.Diff(asJSON(rt, in), readParquet(rt, parquetOf(rt, in))); d != "" {
			rt.Fatalf("rows changed (-want +got):\n%s", d)
		}
	})
}

func TestParquetOfRecords(t *testing.T) {
	t.Parallel()
	for seed := range 5 {
		rollouts := rapid.Custom(rows[record.Rollout]).Example(seed)
		if d := cmp.Diff(asJSON(t, rollouts), readParquet(t, parquetOf(t, rollouts))); d != "" {
			t.Errorf("rollouts changed (-want +got):\n%s", d)
		}
		examples := rapid.Custom(rows[record.SFTRow]).Example(seed)
		file := parquetOf(t, examples)
		if d := cmp.Diff(asJSON(t, examples), readParquet(t, file)); d != "" {
			t.Errorf("examples changed (-want +got):\n%s", d)
		}
		if !bytes.Equal(file, parquetOf(t, examples)) {
			t.Error("the same rows gave other bytes")
		}
	}
}

// Several row groups, several reads in each, lists that end across reads.
func TestParquetOfManyRows(t *testing.T) {
	t.Parallel()
	var in []everything
	for i := range groupRows + 700 {
		e := everything{ID: fmt.Sprintf("%06d", i), Strings: []string{}}
		for j := range i % 5 {
			e.Strings = append(e.Strings, strings.Repeat("x", j*i%97))
			e.Inners = append(e.Inners, inner{IDs: make([]int32, j)})
		}
		in = append(in, e)
	}
	got := readParquet(t, parquetOf(t, in))
	if len(got) != len(in) {
		t.Fatalf("%d rows, want %d", len(got), len(in))
	}
	for i, row := range got {
		want := asAny(in[i].Strings)
		if row["id"] != in[i].ID || !cmp.Equal(row["strings"], want) || len(row["inners"].([]any)) != i%5 {
			t.Fatalf("row %d: %v, want strings %v", i, row, want)
		}
	}
}

func asAny(s []string) any {
	out := []any{}
	for _, v := range s {
		out = append(out, v)
	}
	return out
}

func TestParquetWithoutRowsHasItsSchema(t *testing.T) {
	t.Parallel()
	file := parquetOf[record.SFTRow](t, nil)
	if got := readParquet(t, file); len(got) != 0 {
		t.Errorf("rows %v", got)
	}
	if !bytes.Contains(file, []byte("step_loss_mask")) {
		t.Error("the file has no schema")
	}
}

func TestParquetErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("source broke")
	err := WriteParquet(&bytes.Buffer{}, func(yield func(everything, error) bool) { yield(everything{}, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error of the rows: %v", err)
	}
	err = WriteParquet(&bytes.Buffer{}, each([]everything{{ID: "k", Strings: []string{"\xff"}}}))
	if err == nil || !strings.Contains(err.Error(), `row "k": column strings[0]: not valid UTF-8`) {
		t.Errorf("invalid text: %v", err)
	}
	if err := WriteParquet(&failing{100}, each([]everything{{ID: "k"}})); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("full disk: %v", err)
	}
	file := parquetOf(t, []everything{{ID: "a"}, {ID: "b"}})
	for _, bad := range [][]byte{nil, []byte("PAR1"), []byte("no parquet at all, really"), file[:len(file)/2], file[:len(file)-1], slices.Concat(file[:40], make([]byte, 200), file[240:])} {
		_, err := collect(ReadParquet(t.Context(), bytes.NewReader(bad), int64(len(bad))))
		if err == nil || !strings.Contains(err.Error(), "the Parquet file cannot be read") {
			t.Errorf("a file of %d bytes: %v", len(bad), err)
		}
	}
}

func TestObjectKeepsOrder(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(Object{{"z", int64(1)}, {"a", Object{{"<", nil}}}, {"l", []any{Object{}, "&"}}})
	if want := `{"z":1,"a":{"<":null},"l":[{},"&"]}`; err != nil || strings.ReplaceAll(strings.ReplaceAll(string(b), `\u0026`, "&"), `\u003c`, "<") != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}
