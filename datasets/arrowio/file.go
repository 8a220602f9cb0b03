package arrowio

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// File is an Arrow IPC file whose batches are decoded one by one, and of these the
// columns that are wanted only: the library reads the schema, and this package walks
// the batches itself, as the library's reader has no projection, makes a decompressor
// for every batch and copies each batch before it decodes it. Safe for concurrent use.
type File struct {
	r      io.ReaderAt
	size   int64
	schema *arrow.Schema
	blocks []block
}

// block is where a batch lies in the file.
type block struct {
	offset, body int64
	meta         int32
}

// Flatbuffers of Arrow's format/File.fbs and Message.fbs: a field's slot is 4 + 2·n.
const (
	footerBatches = 10
	footerDicts   = 8
	messageType   = 6
	messageHeader = 8
	batchLength   = 4
	batchNodes    = 6
	batchBuffers  = 8
	batchPacking  = 10
	packingCodec  = 4

	isRecordBatch = 3
	codecZstd     = 1
	tail          = 10 // length of the footer and the magic
	maxMeta       = 16 << 20
)

// Open reads the footer of a file that the caller has verified.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size}
	if err := guard(f.readFooter); err != nil {
		return nil, fmt.Errorf("arrow file: %w", err)
	}
	return f, nil
}

func (f *File) readFooter() error {
	lib, err := ipc.NewFileReader(io.NewSectionReader(f.r, 0, f.size))
	if err != nil {
		return err
	}
	f.schema = lib.Schema()
	lib.Close()
	var end [tail]byte
	if _, err := f.r.ReadAt(end[:], f.size-tail); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	raw := make([]byte, n) // the library has compared it with the size
	if _, err := f.r.ReadAt(raw, f.size-tail-n); err != nil {
		return err
	}
	t := root(raw)
	if _, dicts := vector(t, footerDicts); dicts > 0 {
		return fmt.Errorf("has dictionaries, which shards never have")
	}
	at, count := vector(t, footerBatches)
	for i := range count {
		p := at + flatbuffers.UOffsetT(24*i)
		b := block{offset: t.GetInt64(p), meta: t.GetInt32(p + 8), body: t.GetInt64(p + 16)}
		if b.offset < 0 || b.meta < 8 || b.meta > maxMeta || b.body < 0 || b.offset > f.size-int64(b.meta)-b.body {
			return fmt.Errorf("batch %d lies outside of the file", i)
		}
		f.blocks = append(f.blocks, b)
	}
	return nil
}

// root is the table that a flatbuffer begins with.
func root(b []byte) flatbuffers.Table {
	return flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
}

// vector is where the elements of a table's vector begin, and how many there are.
func vector(t flatbuffers.Table, slot flatbuffers.VOffsetT) (flatbuffers.UOffsetT, int) {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return 0, 0
	}
	return t.Vector(o), t.VectorLen(o)
}

// table is a table's child.
func table(t flatbuffers.Table, slot flatbuffers.VOffsetT) (flatbuffers.Table, bool) {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}, true
}

// header is what a batch says of itself.
type header struct {
	at      int64 // where its buffers begin
	body    int64
	rows    int64
	packed  bool // buffers are zstd frames
	nodes   []extent
	buffers []span
}

type extent struct{ length, nulls int64 }

type span struct{ off, n int64 }

// header reads the metadata of batch i.
func (f *File) header(i int) (*header, error) {
	b := f.blocks[i]
	raw := make([]byte, b.meta)
	if _, err := f.r.ReadAt(raw, b.offset); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(raw) == 0xffffffff { // absent in files of old Arrow
		raw = raw[4:]
	}
	msg := root(raw[4:])
	if msg.GetByteSlot(messageType, 0) != isRecordBatch {
		return nil, fmt.Errorf("is no record batch")
	}
	t, ok := table(msg, messageHeader)
	if !ok {
		return nil, fmt.Errorf("has no header")
	}
	h := &header{at: b.offset + int64(b.meta), body: b.body, rows: t.GetInt64Slot(batchLength, 0)}
	if p, ok := table(t, batchPacking); ok {
		if codec := p.GetInt8Slot(packingCodec, 0); codec != codecZstd {
			return nil, fmt.Errorf("is compressed with codec %d; shards use zstd", codec)
		}
		h.packed = true
	}
	at, n := vector(t, batchNodes)
	for j := range n {
		p := at + flatbuffers.UOffsetT(16*j)
		h.nodes = append(h.nodes, extent{t.GetInt64(p), t.GetInt64(p + 8)})
	}
	at, n = vector(t, batchBuffers)
	for j := range n {
		p := at + flatbuffers.UOffsetT(16*j)
		s := span{t.GetInt64(p), t.GetInt64(p + 8)}
		if s.off < 0 || s.n < 0 || s.off > b.body-s.n {
			return nil, fmt.Errorf("buffer %d lies outside of the batch", j)
		}
		h.buffers = append(h.buffers, s)
	}
	return h, nil
}
