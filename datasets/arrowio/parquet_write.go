package arrowio

import (
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"orchard/datasets/record"
)

// A row group ends at whichever comes first. It is what a loader holds in memory.
const (
	groupBytes = 64 << 20
	groupRows  = 10_000
)

// WriteParquet writes rows as a Parquet file that loaders read as it is: zstd, version 1
// data pages (those of version 2 may split rows in Arrow 17), the Arrow schema stored,
// also with no rows. Text is plain string, not large_string, as loaders refuse to join
// files that differ in that; row groups are small enough for it. An error of rows ends
// the writing and is returned as it is.
func WriteParquet[R record.Row](w io.Writer, rows iter.Seq2[R, error]) error {
	c := codecOf[R]()
	schema := c.parquetSchema()
	out, err := StartParquet(w, schema)
	if err != nil {
		return err
	}
	g := &group{codec: c, schema: schema, out: out}
	g.rows = array.NewStructBuilder(memory.DefaultAllocator, arrow.StructOf(schema.Fields()...))
	defer g.rows.Release()
	for row, err := range rows {
		if err == nil {
			err = g.add(reflect.ValueOf(row), row.Key())
		}
		if err != nil {
			return err
		}
	}
	if err := g.flush(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("end parquet file: %w", err)
	}
	return nil
}

// StartParquet begins a file with the properties that WriteParquet promises; w stays open.
func StartParquet(w io.Writer, schema *arrow.Schema) (*pqarrow.FileWriter, error) {
	out, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w}, // hides Close
		parquet.NewWriterProperties(
			parquet.WithCompression(compress.Codecs.Zstd),
			parquet.WithDataPageVersion(parquet.DataPageV1),
			parquet.WithMaxRowGroupLength(groupRows),
			parquet.WithCreatedBy("orchard"),
			parquet.WithRootRepetition(parquet.Repetitions.Required), // repeated, as Arrow 17 has it, misleads readers
		),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fmt.Errorf("start parquet file: %w", err)
	}
	return out, nil
}

// group is the row group that is being filled.
type group struct {
	codec  *codec
	schema *arrow.Schema
	out    *pqarrow.FileWriter
	rows   *array.StructBuilder
	weight int64
}

func (g *group) add(row reflect.Value, key string) error {
	before := g.weight
	if err := g.codec.row.append(g.rows, row, &g.weight); err != nil {
		return fmt.Errorf("row %q: %w", key, err)
	}
	if size := g.weight - before; size > maxRow {
		return fmt.Errorf("row %q: has %d bytes; the most is %d", key, size, maxRow)
	}
	if g.rows.Len() >= groupRows || g.weight >= groupBytes {
		return g.flush()
	}
	return nil
}

func (g *group) flush() error {
	if g.rows.Len() == 0 {
		return nil
	}
	s := g.rows.NewStructArray()
	defer s.Release()
	rec := array.RecordFromStructArray(s, g.schema)
	defer rec.Release()
	g.weight = 0
	if err := guard(func() error { return g.out.Write(rec) }); err != nil {
		return fmt.Errorf("write parquet row group: %w", err)
	}
	return nil
}

func (c *codec) parquetSchema() *arrow.Schema {
	return arrow.NewSchema(small(c.row.arrow).(*arrow.StructType).Fields(), c.schema.Metadata())
}

// small is a type with 32-bit offsets throughout, and without our metadata.
func small(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.LargeStringType:
		return arrow.BinaryTypes.String
	case *arrow.LargeBinaryType:
		return arrow.BinaryTypes.Binary
	case *arrow.ListType:
		f := t.ElemField()
		// Arrow 17 makes every element optional in Parquet; a stored schema that says
		// otherwise makes polars read other values.
		return arrow.ListOfField(arrow.Field{Name: "element", Type: small(f.Type), Nullable: true})
	case *arrow.StructType:
		var fields []arrow.Field
		for _, f := range t.Fields() {
			fields = append(fields, arrow.Field{Name: f.Name, Type: small(f.Type), Nullable: f.Nullable})
		}
		return arrow.StructOf(fields...)
	}
	return t
}

// oneEncoder spares making a zstd encoder, several megabytes of tables, for every page:
// Arrow 17 does so although the encoder of Encode, at the same default level, is safe
// to share.
type oneEncoder struct{ compress.Codec }

func (c oneEncoder) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

func init() {
	zstd, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		panic(err) // it registers itself
	}
	compress.RegisterCodec(compress.Codecs.Zstd, oneEncoder{zstd})
}
