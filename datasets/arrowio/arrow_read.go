package arrowio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// fileMagic begins and ends an Arrow IPC file; a stream has none.
var fileMagic = []byte("ARROW1")

// streamEnd is how a stream says that it is whole. Without it a stream that is cut off
// between two batches looks like a shorter one.
var streamEnd = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// ReadArrow yields the rows of any Arrow IPC file or stream in the shapes of
// ReadParquet. It holds one record batch at a time.
func ReadArrow(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		n := 0
		fail := func(err error) {
			yield(nil, fmt.Errorf("the Arrow file cannot be read to its end: row %d: %w", n, err))
		}
		next, end, err := openArrow(r, size)
		if err != nil {
			yield(nil, fmt.Errorf("the Arrow file cannot be read: %w", err))
			return
		}
		defer end()
		for {
			var batch *array.Struct
			err := guard(func() error {
				rec, err := next()
				if err == nil {
					batch = array.RecordToStructArray(rec)
				}
				return err
			})
			if errors.Is(err, io.EOF) {
				return
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				fail(err)
				return
			}
			for i := range batch.Len() {
				row, err := plainRow(batch, i)
				if err != nil {
					fail(err)
					return
				}
				if !yield(row, nil) {
					return
				}
				n++
			}
			batch.Release()
		}
	}
}

// openArrow starts a file or a stream; next ends with io.EOF.
func openArrow(r io.ReaderAt, size int64) (next func() (arrow.Record, error), end func(), err error) {
	all := io.NewSectionReader(r, 0, size)
	mem := ipc.WithAllocator(bounded{memory.DefaultAllocator})
	head := make([]byte, min(size, 8))
	if _, err := io.ReadFull(all, head); err != nil {
		return nil, nil, err
	}
	if bytes.HasPrefix(head, fileMagic) {
		var f *ipc.FileReader
		var batches int
		err := guard(func() (err error) {
			if f, err = ipc.NewFileReader(all, mem); err == nil {
				batches = f.NumRecords()
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		i := -1
		return func() (arrow.Record, error) {
			if i++; i >= batches {
				return nil, io.EOF
			}
			return f.RecordAt(i)
		}, func() { _ = f.Close() }, nil
	}
	tail := make([]byte, len(streamEnd))
	if size < int64(len(tail)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if !bytes.Equal(tail, streamEnd) {
		return nil, nil, fmt.Errorf("a stream without an end mark: it is cut off, or no Arrow")
	}
	if _, err := all.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	var s *ipc.Reader
	if err := guard(func() (err error) { s, err = ipc.NewReader(all, mem); return err }); err != nil {
		return nil, nil, err
	}
	return func() (arrow.Record, error) {
		if s.Next() {
			return s.Record(), nil
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}, s.Release, nil
}
