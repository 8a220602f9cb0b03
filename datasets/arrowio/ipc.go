package arrowio

import (
	"fmt"
	"io"
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

// smallBytes is a batch of a sorted run: some hundred of them fit into memory at once.
const smallBytes = 256 << 10

// maxRow bounds a row, so that no batch and no buffer in a file is ever much larger
// than both bounds together.
const maxRow = 256 << 20

// Batcher gathers rows into batches. Not safe for concurrent use. After an error it
// stays broken.
type Batcher[R record.Row] struct {
	codec   *codec
	rows    *array.StructBuilder
	most    int64 // weight at which a batch ends
	weight  int64 // of the rows in it
	pending int
	first   string
	last    string
	err     error
}

// Batch is some rows, as they are stored. First and Last are their ids' bounds.
type Batch struct {
	Rows        int64
	First, Last string
	record      arrow.Record
}

// NewBatcher makes batches as shards have them.
func NewBatcher[R record.Row]() *Batcher[R] { return batcher[R](batchBytes) }

// NewSmallBatcher makes batches of a size of which many fit into memory.
func NewSmallBatcher[R record.Row]() *Batcher[R] { return batcher[R](smallBytes) }

func batcher[R record.Row](most int64) *Batcher[R] {
	c := codecOf[R]()
	return &Batcher[R]{codec: c, most: most, rows: array.NewStructBuilder(memory.DefaultAllocator, c.row.arrow.(*arrow.StructType))}
}

// Add adds a row; full says that the batch is to be taken now. An error names the
// column, not the row: the caller knows its id.
func (b *Batcher[R]) Add(row R) (full bool, err error) {
	if b.err != nil {
		return false, b.err
	}
	before := b.weight
	b.err = b.codec.row.append(b.rows, reflect.ValueOf(row), &b.weight)
	if size := b.weight - before; b.err == nil && size > maxRow {
		b.err = fmt.Errorf("row of %d bytes; the most is %d", size, maxRow)
	}
	if b.err != nil {
		return false, b.err
	}
	if b.last = row.Key(); b.pending == 0 {
		b.first = b.last
	}
	b.pending++
	return b.pending >= batchRows || b.weight >= b.most, nil
}

// Take is the rows added since the last, or nil when there are none.
func (b *Batcher[R]) Take() *Batch {
	if b.pending == 0 {
		return nil
	}
	s := b.rows.NewStructArray()
	defer s.Release()
	out := &Batch{Rows: int64(b.pending), First: b.first, Last: b.last, record: array.RecordFromStructArray(s, b.codec.arrowSchema())}
	b.weight, b.pending = 0, 0
	return out
}

// Writer writes batches to one Arrow IPC file. Not safe for concurrent use. After an
// error it stays broken.
type Writer[R record.Row] struct {
	out   *counter
	file  *ipc.FileWriter
	stats *tracker
	rows  int64
	err   error
}

// NewWriter starts a file on w, which gets it piece by piece and in order.
func NewWriter[R record.Row](w io.Writer) (*Writer[R], error) {
	return newWriter[R](w, track(codecOf[R]().schema), compressed...)
}

// compressed is how shards are.
var compressed = []ipc.Option{ipc.WithZstd(), ipc.WithCompressConcurrency(0)}

// NewPlainWriter is NewWriter for a file that is soon read again: it is not compressed
// and has no statistics.
func NewPlainWriter[R record.Row](w io.Writer) (*Writer[R], error) {
	return newWriter[R](w, &tracker{})
}

func newWriter[R record.Row](w io.Writer, stats *tracker, opts ...ipc.Option) (*Writer[R], error) {
	out := &counter{w: w}
	f, err := startIPC(out, codecOf[R]().arrowSchema(), opts)
	return &Writer[R]{out: out, file: f, stats: stats}, err
}

// StartIPC begins a file that is compressed as shards are; w stays open.
func StartIPC(w io.Writer, schema *arrow.Schema) (*ipc.FileWriter, error) {
	return startIPC(&counter{w: w}, schema, compressed)
}

func startIPC(out *counter, schema *arrow.Schema, opts []ipc.Option) (*ipc.FileWriter, error) {
	f, err := ipc.NewFileWriter(out, append(opts[:len(opts):len(opts)], ipc.WithSchema(schema))...)
	if err != nil {
		return nil, fmt.Errorf("start arrow file: %w", err)
	}
	return f, nil
}

// Write adds a batch and gives it up.
func (w *Writer[R]) Write(b *Batch) error {
	if w.err != nil {
		return w.err
	}
	defer b.record.Release()
	w.rows += b.Rows
	rows := array.RecordToStructArray(b.record)
	w.stats.add(rows)
	rows.Release()
	if w.err = w.file.Write(b.record); w.err != nil {
		w.err = fmt.Errorf("write arrow batch: %w", w.err)
	}
	return w.err
}

// Rows is how many rows were written; Size how many bytes the file has so far.
func (w *Writer[R]) Rows() int64 { return w.rows }
func (w *Writer[R]) Size() int64 { return w.out.n }

// Stats is the statistics of what was written, by column.
func (w *Writer[R]) Stats() map[string]Stat { return w.stats.stats() }

// Close ends the file; it does not close the underlying writer.
func (w *Writer[R]) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.file.Close(); w.err != nil {
		w.err = fmt.Errorf("end arrow file: %w", w.err)
	}
	return w.err
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
