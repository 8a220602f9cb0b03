// Package untyped writes rows that have no Go type, as exports of any version need it:
// Arrow IPC files and Parquet from a schema and objects. A row type that the program
// knows is written by arrowio itself.
//
// The same rows give the same bytes, every file carries the whole schema, also with no
// rows, and at most one batch or row group is in memory.
package untyped

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"orchard/datasets/arrowio"
)

// A batch or row group ends at whichever comes first. Loaders hold one in memory, and
// so does every file that is being written.
const (
	ipcBytes, ipcRows         = 8 << 20, 4096
	parquetBytes, parquetRows = 32 << 20, 10_000
)

// Writer writes one file. Not safe for concurrent use; after an error it stays broken.
type Writer struct {
	fields  []arrowio.Field
	schema  *arrow.Schema
	batch   *array.StructBuilder
	out     sink
	maxSize int64
	maxRows int
	size    int64
	rows    int64
	err     error
}

// sink is what both formats have.
type sink interface {
	Write(arrow.Record) error
	Close() error
}

// NewIPC starts an Arrow IPC file in the types that shards have. A batch ends at limit
// bytes at the latest, when that is more than 0, so that a small file can be cut.
func NewIPC(w io.Writer, s arrowio.Schema, limit int64) (*Writer, error) {
	fields, err := columns(s.Fields, wide)
	if err != nil {
		return nil, err
	}
	schema := arrow.NewSchema(fields, s.Metadata())
	f, err := arrowio.StartIPC(w, schema)
	if err != nil {
		return nil, err
	}
	return start(s, schema, f, bound(ipcBytes, limit), ipcRows), nil
}

// NewParquet starts a Parquet file as arrowio.WriteParquet would; limit is that of a row
// group.
func NewParquet(w io.Writer, s arrowio.Schema, limit int64) (*Writer, error) {
	fields, err := columns(s.Fields, narrow)
	if err != nil {
		return nil, err
	}
	schema := arrow.NewSchema(fields, s.Metadata())
	f, err := arrowio.StartParquet(w, schema)
	if err != nil {
		return nil, err
	}
	return start(s, schema, f, bound(parquetBytes, limit), parquetRows), nil
}

func start(s arrowio.Schema, schema *arrow.Schema, out sink, size int64, rows int) *Writer {
	b := array.NewStructBuilder(memory.DefaultAllocator, arrow.StructOf(schema.Fields()...))
	return &Writer{fields: s.Fields, schema: schema, batch: b, out: out, maxSize: size, maxRows: rows}
}

func bound(most, limit int64) int64 {
	if limit > 0 {
		return min(most, limit)
	}
	return most
}

// Rows is how many rows were written.
func (w *Writer) Rows() int64 { return w.rows }

// Write adds a row whose members are those of the schema, in its order.
func (w *Writer) Write(row arrowio.Object) error {
	if w.err != nil {
		return w.err
	}
	if w.err = appendStruct(w.batch, w.fields, row, &w.size); w.err != nil {
		w.err = fmt.Errorf("row %d: %w", w.rows, w.err)
		return w.err
	}
	w.rows++
	if w.size >= w.maxSize || w.batch.Len() >= w.maxRows {
		w.err = w.flush()
	}
	return w.err
}

func (w *Writer) flush() error {
	s := w.batch.NewStructArray()
	defer s.Release()
	rec := array.RecordFromStructArray(s, w.schema)
	defer rec.Release()
	w.size = 0
	return guard("write batch", func() error { return w.out.Write(rec) })
}

// Close ends the file; the underlying writer stays open.
func (w *Writer) Close() error {
	defer w.batch.Release()
	if w.err == nil && w.batch.Len() > 0 {
		w.err = w.flush()
	}
	if w.err != nil {
		return w.err
	}
	return guard("end file", w.out.Close)
}

// guard turns a panic of the Arrow library into an error.
func guard(what string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", what, p)
		}
	}()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
