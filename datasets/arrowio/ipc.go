package arrowio

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"orchard/datasets/record"
)

// A batch ends at whichever comes first. They are part of the format: other bounds
// give other bytes.
const (
	batchBytes = 8 << 20
	batchRows  = 4096
)

// maxRow bounds a row, so that no batch and no buffer in a file is ever much larger
// than both bounds together.
const maxRow = 256 << 20

// Writer writes rows to one Arrow IPC file. Not safe for concurrent use. After an
// error it stays broken.
type Writer[R record.Row] struct {
	codec   *codec
	out     *counter
	file    *ipc.FileWriter
	batch   *array.StructBuilder
	weight  int64 // of the rows in batch
	rows    int64
	pending int
	err     error
}

// NewWriter starts a file on w, which gets it piece by piece and in order.
func NewWriter[R record.Row](w io.Writer) (*Writer[R], error) {
	c := codecOf[R]()
	out := &counter{w: w}
	f, err := ipc.NewFileWriter(out, ipc.WithSchema(c.arrowSchema()), ipc.WithZstd(), ipc.WithCompressConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("start arrow file: %w", err)
	}
	b := array.NewStructBuilder(memory.DefaultAllocator, c.row.arrow.(*arrow.StructType))
	return &Writer[R]{codec: c, out: out, file: f, batch: b}, nil
}

// Write adds a row. An error names the column, not the row: the caller knows its id.
func (w *Writer[R]) Write(row R) error {
	if w.err != nil {
		return w.err
	}
	before := w.weight
	w.err = w.codec.row.append(w.batch, reflect.ValueOf(row), &w.weight)
	if size := w.weight - before; w.err == nil && size > maxRow {
		w.err = fmt.Errorf("row of %d bytes; the most is %d", size, maxRow)
	}
	if w.err != nil {
		return w.err
	}
	w.rows++
	if w.pending++; w.pending >= batchRows || w.weight >= batchBytes {
		w.err = w.flush()
	}
	return w.err
}

func (w *Writer[R]) flush() error {
	s := w.batch.NewStructArray()
	defer s.Release()
	rec := array.RecordFromStructArray(s, w.codec.arrowSchema())
	defer rec.Release()
	w.weight, w.pending = 0, 0
	if err := w.file.Write(rec); err != nil {
		return fmt.Errorf("write arrow batch: %w", err)
	}
	return nil
}

// Rows is how many rows were written; Size how many bytes the file has so far, without
// the rows of the batch that is still open.
func (w *Writer[R]) Rows() int64 { return w.rows }
func (w *Writer[R]) Size() int64 { return w.out.n }

// Close ends the file; it does not close the underlying writer.
func (w *Writer[R]) Close() error {
	defer w.batch.Release()
	if w.err == nil && w.pending > 0 {
		w.err = w.flush()
	}
	if w.err != nil {
		return w.err
	}
	if w.err = w.file.Close(); w.err != nil {
		return fmt.Errorf("end arrow file: %w", w.err)
	}
	return nil
}

// counter is the io.WriteSeeker that Arrow 17 asks for; Arrow only asks where it is.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) Seek(off int64, whence int) (int64, error) {
	if off != 0 || whence != io.SeekCurrent {
		return 0, fmt.Errorf("this file is written in one go")
	}
	return c.n, nil
}

// Read yields the rows of an IPC file that the caller has verified. With columns only
// those fields are set (dotted paths select parts of a struct or of a list's structs);
// the others are zero. One batch is in memory at a time.
func Read[R record.Row](file []byte, columns ...string) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		c := codecOf[R]()
		var zero R
		if err := c.schema.Check(columns); err != nil {
			yield(zero, err)
			return
		}
		var read readFunc
		for batch, err := range batches(file) {
			if err == nil && read == nil {
				read, err = c.row.bindStruct(batch.DataType().(*arrow.StructType).Fields(), "", columns)
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for i := range batch.Len() {
				var row R
				if err := guard(func() error { read(batch, i, reflect.ValueOf(&row).Elem()); return nil }); err != nil {
					yield(zero, err)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// ReadObjects yields the rows of an IPC file that the caller has verified, whatever
// their type.
func ReadObjects(file []byte) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for batch, err := range batches(file) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range batch.Len() {
				var row Object
				err := guard(func() (err error) {
					row, err = object(batch, i)
					return err
				})
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// batches yields each batch of an IPC file as an array of structs, valid until the next.
func batches(file []byte) iter.Seq2[*array.Struct, error] {
	return func(yield func(*array.Struct, error) bool) {
		var r *ipc.FileReader
		var n int
		err := guard(func() (err error) {
			r, err = ipc.NewFileReader(bytes.NewReader(file), ipc.WithAllocator(bounded{memory.DefaultAllocator}))
			if err == nil {
				n = r.NumRecords()
			}
			return err
		})
		if err != nil {
			yield(nil, fmt.Errorf("arrow file: %w", err))
			return
		}
		defer r.Close()
		for i := range n {
			var batch *array.Struct
			err := guard(func() error {
				rec, err := r.RecordAt(i)
				if err != nil {
					return err
				}
				defer rec.Release()
				batch = array.RecordToStructArray(rec)
				return nil
			})
			if err != nil {
				yield(nil, fmt.Errorf("arrow file: batch %d: %w", i, err))
				return
			}
			more := yield(batch, nil)
			batch.Release()
			if !more {
				return
			}
		}
	}
}

// bounded refuses what only a damaged length can ask for; Go could not recover from
// running out of memory.
type bounded struct{ memory.Allocator }

func (b bounded) Allocate(size int) []byte {
	if size > 2*(maxRow+batchBytes) {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
	return b.Allocator.Allocate(size)
}

// guard turns a panic of the Arrow library into an error.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	return do()
}
