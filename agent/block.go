package agent

import (
	"bufio"
	"io"
	"sync"
)

// blockSize is what is moved at once.
const blockSize = 32 << 10

// blocks and writers are reused: most commands print a few bytes and are over in a
// millisecond, and would else leave a hundred kilobytes to collect each.
var (
	blocks  = sync.Pool{New: func() any { return new([blockSize]byte) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, blockSize) }}
)

// copyBlocks is io.Copy with a reused block.
func copyBlocks(to io.Writer, from io.Reader) (int64, error) {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	return io.CopyBuffer(to, from, block[:])
}

// buffered calls write with a writer that collects for to.
func buffered(to io.Writer, write func(*bufio.Writer) error) error {
	w := writers.Get().(*bufio.Writer)
	defer writers.Put(w)
	w.Reset(to)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
