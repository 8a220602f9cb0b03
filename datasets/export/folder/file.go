package folder

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"orchard/datasets/arrowio"
	"orchard/datasets/arrowio/untyped"
	"orchard/datasets/query"
)

// encoder writes rows in one format.
type encoder interface {
	Write(arrowio.Object) error
	Close() error
}

// file is an output file that is being written, under a hidden name.
type file struct {
	encoder
	f    *os.File
	buf  *bufio.Writer
	hash hash.Hash
	n    int64
	rows int64
	last string
}

func (e *export) create(i int) (*file, error) {
	f, err := os.OpenFile(e.hidden(i), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, trouble(err)
	}
	out := &file{f: f, hash: sha256.New()}
	out.buf = bufio.NewWriterSize(writerFunc(out.put), 256<<10)
	if out.encoder, err = newEncoder(out.buf, e.o.Format, e.o.Query.Schema(), e.o.FileBytes); err != nil {
		f.Close()
		return nil, err
	}
	return out, nil
}

type writerFunc func(p []byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// put is the way of all bytes to the disk.
func (f *file) put(p []byte) (int, error) {
	n, err := f.f.Write(p)
	f.hash.Write(p[:n])
	f.n += int64(n)
	if err != nil {
		err = trouble(err)
	}
	return n, err
}

func (f *file) write(row query.Row) error {
	f.rows++
	f.last = row.ID
	return f.encoder.Write(row.Object)
}

// full counts what the encoder has let go of, so a file ends after the batch that filled it.
func (f *file) full(limit int64) bool { return f.n+int64(f.buf.Buffered()) >= limit }

func (f *file) close() (entry, error) {
	err := f.encoder.Close()
	if err == nil {
		err = f.buf.Flush()
	}
	if err == nil {
		if err = f.f.Sync(); err != nil {
			err = trouble(err)
		}
	}
	if err = errors.Join(err, f.f.Close()); err != nil {
		return entry{}, fmt.Errorf("write %s: %w", f.f.Name(), err)
	}
	return entry{SHA256: hex.EncodeToString(f.hash.Sum(nil)), Bytes: f.n, Rows: f.rows, Last: f.last}, nil
}

// abort leaves an unfinished file, which nobody takes for a finished one.
func (f *file) abort() {
	_ = f.f.Close()
	_ = os.Remove(f.f.Name())
}

func newEncoder(w io.Writer, format string, s arrowio.Schema, limit int64) (encoder, error) {
	switch format {
	case "parquet":
		return untyped.NewParquet(w, s, limit)
	case "arrow":
		return untyped.NewIPC(w, s, limit)
	}
	switch _, packing, _ := strings.Cut(format, "."); packing {
	case "zst":
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // several would cut it by chance
		return &lines{z, z}, err
	case "gz":
		z := gzip.NewWriter(w)
		return &lines{z, z}, nil
	}
	return &lines{w, io.NopCloser(nil)}, nil
}

// lines is a JSON object a line.
type lines struct {
	io.Writer
	io.Closer
}

func (l *lines) Write(o arrowio.Object) error {
	raw, err := finite(o).(arrowio.Object).MarshalJSON()
	if err != nil {
		return err
	}
	_, err = l.Writer.Write(append(raw, '\n'))
	return err
}

// finite has null for what JSON has no number for: NaN and the infinities.
func finite(v any) any {
	switch v := v.(type) {
	case float32:
		if v-v != 0 {
			return nil
		}
	case float64:
		if v-v != 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = finite(v[i])
		}
	case arrowio.Object:
		for i := range v {
			v[i].Value = finite(v[i].Value)
		}
	}
	return v
}
