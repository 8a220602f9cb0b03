package arrowio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// ReadParquet yields the rows of any Parquet file in the shapes that JSON has: nil,
// bool, int64, float64, string, []any, map[string]any; besides these time.Time for
// timestamps and dates, json.Number for decimals and for integers beyond int64, and
// []byte for binary that is not valid UTF-8. It holds a few hundred rows at a time, not
// a row group. The error names the row (from 0) and column.
func ReadParquet(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		var rows pqarrow.RecordReader
		err := guard(func() (err error) {
			rows, err = openParquet(ctx, r, size)
			return err
		})
		if err != nil {
			yield(nil, fmt.Errorf("the Parquet file cannot be read: %w", err))
			return
		}
		defer rows.Release()
		n := 0
		for {
			var batch *array.Struct
			err := guard(func() error {
				if rows.Next() {
					batch = array.RecordToStructArray(rows.Record())
				} else if err := rows.Err(); !errors.Is(err, io.EOF) { // which is how Arrow 17 ends
					return err
				}
				return ctx.Err()
			})
			if err != nil {
				yield(nil, fmt.Errorf("the Parquet file cannot be read to its end: after row %d: %w", n, err))
				return
			}
			if batch == nil {
				return
			}
			for i := range batch.Len() {
				row, err := plainRow(batch, i)
				if err != nil {
					err = fmt.Errorf("the Parquet file cannot be read to its end: row %d: %w", n, err)
				}
				if !yield(row, err) || err != nil {
					return
				}
				n++
			}
			batch.Release()
		}
	}
}

func openParquet(ctx context.Context, r io.ReaderAt, size int64) (pqarrow.RecordReader, error) {
	mem := bounded{memory.DefaultAllocator}
	props := parquet.NewReaderProperties(mem)
	props.BufferedStreamEnabled = true // else a whole column of a row group is read at once
	props.BufferSize = 64 << 10
	f, err := file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, err
	}
	a, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 256}, mem)
	if err != nil {
		return nil, err
	}
	return a.GetRecordReader(ctx, nil, nil)
}

// plain turns what value gives into the shapes that JSON has.
func plain(v any) any {
	switch v := v.(type) {
	case Object:
		m := make(map[string]any, len(v))
		for _, f := range v {
			m[f.Name] = plain(f.Value)
		}
		return m
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case float32:
		return float64(v)
	case uint64:
		if v > math.MaxInt64 {
			return json.Number(strconv.FormatUint(v, 10))
		}
		return int64(v)
	case []byte: // old writers leave out that it is text
		if utf8.Valid(v) {
			return string(v)
		}
	}
	return v
}
