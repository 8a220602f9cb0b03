package arrowio

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"
)

// foreign is a Parquet file with columns that our own never have.
func foreign(t *testing.T, fields []arrow.Field, rows string, codec compress.Compression, opts ...pqarrow.WriterOption) []byte {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(parquet.WithCompression(codec)), pqarrow.NewArrowWriterProperties(opts...))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestForeignTypes(t *testing.T) {
	t.Parallel()
	noon := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		typ  arrow.DataType
		json string // of the value
		want any
		opts []pqarrow.WriterOption
	}{
		{"string", arrow.BinaryTypes.String, `"é"`, "é", nil},
		{"large string", arrow.BinaryTypes.LargeString, `"é"`, "é", []pqarrow.WriterOption{pqarrow.WithStoreSchema()}},
		{"text as binary", arrow.BinaryTypes.Binary, `"aGk="`, "hi", nil},
		{"binary", arrow.BinaryTypes.Binary, `"/wA="`, []byte{0xff, 0}, nil},
		{"fixed binary", &arrow.FixedSizeBinaryType{ByteWidth: 2}, `"/wA="`, []byte{0xff, 0}, nil},
		{"int32", arrow.PrimitiveTypes.Int32, `-7`, int64(-7), nil},
		{"int8", arrow.PrimitiveTypes.Int8, `-7`, int64(-7), nil},
		{"uint64", arrow.PrimitiveTypes.Uint64, `9223372036854775808`, json.Number("9223372036854775808"), nil},
		{"float32", arrow.PrimitiveTypes.Float32, `0.5`, 0.5, nil},
		{"bool", arrow.FixedWidthTypes.Boolean, `true`, true, nil},
		{"decimal", &arrow.Decimal128Type{Precision: 10, Scale: 2}, `"-12.30"`, json.Number("-12.30"), nil},
		{"timestamp s", &arrow.TimestampType{Unit: arrow.Second}, `"2024-02-29 12:00:00"`, noon, nil},
		{"timestamp ms", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, `"2024-02-29 12:00:00"`, noon, nil},
		{"timestamp ns", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, `"2024-02-29 12:00:00"`, noon, nil},
		{"int96", &arrow.TimestampType{Unit: arrow.Nanosecond}, `"2024-02-29 12:00:00"`, noon, []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}},
		{"date", arrow.FixedWidthTypes.Date32, `"2024-02-29"`, noon.Truncate(24 * time.Hour), nil},
		{"time", arrow.FixedWidthTypes.Time64us, `"12:30:00.5"`, "12:30:00.5", nil},
		{"list", arrow.ListOf(arrow.BinaryTypes.String), `["a",null,""]`, []any{"a", nil, ""}, nil},
		{"fixed list", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[1,2]`, []any{1.0, 2.0}, nil},
		{"map", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), `[{"key":"k","value":1}]`, map[string]any{"k": int64(1)}, nil},
		{"int map", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), `[{"key":1,"value":"v"}]`, []any{map[string]any{"key": int64(1), "value": "v"}}, nil},
		{"struct", arrow.StructOf(arrow.Field{Name: "a", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}), `{"a":[1]}`, map[string]any{"a": []any{int64(1)}}, nil},
		{"dictionary", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}, `"x"`, "x", []pqarrow.WriterOption{pqarrow.WithStoreSchema()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fields := []arrow.Field{{Name: "c", Type: c.typ, Nullable: true}}
			got := readParquet(t, foreign(t, fields, `[{"c":`+c.json+`},{"c":null}]`, compress.Codecs.Snappy, c.opts...))
			if d := cmp.Diff([]map[string]any{{"c": c.want}, {"c": nil}}, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestForeignCompression(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{{Name: "c", Type: arrow.BinaryTypes.String}}
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd} {
		got := readParquet(t, foreign(t, fields, `[{"c":"x"}]`, codec))
		if d := cmp.Diff([]map[string]any{{"c": "x"}}, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", codec, d)
		}
	}
}
