package arrowio

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/klauspost/compress/zstd"
)

// maxBatch bounds what a batch may hold decompressed: a file's own lengths are not
// trusted with more, as Go could not recover from running out of memory.
const maxBatch = 2 * (maxRow + batchBytes)

// column is a node of a schema's tree with what is wanted of it.
type column struct {
	path    string
	typ     arrow.DataType // as far as it is wanted
	buffers int            // it has in a batch, the validity bitmap included
	kids    []*column
	wanted  bool // it or something below it
}

// tree is a schema's columns; pick says which leaves are wanted by their dotted path, in
// which the elements of a list have no name.
func tree(fields []arrow.Field, path string, pick func(path string) bool) ([]*column, error) {
	var out []*column
	for _, f := range fields {
		name := strings.TrimPrefix(path+"."+f.Name, ".")
		c, err := branch(f.Type, name, pick)
		if err != nil {
			return nil, within(f.Name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func branch(typ arrow.DataType, path string, pick func(path string) bool) (*column, error) {
	c := &column{path: path, typ: typ, buffers: 2}
	var err error
	switch t := typ.(type) {
	case *arrow.StructType:
		c.buffers = 1
		if c.kids, err = tree(t.Fields(), path, pick); err != nil {
			return nil, err
		}
		c.typ = arrow.StructOf(pruned(t.Fields(), c.kids)...)
	case *arrow.ListType:
		elem, err := branch(t.Elem(), path, pick)
		if err != nil {
			return nil, err
		}
		c.kids = []*column{elem}
		if elem.wanted {
			c.typ = arrow.ListOfField(pruned([]arrow.Field{t.ElemField()}, c.kids)[0])
		}
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		c.buffers = 3
	default:
		if _, err := describeScalar(t); err != nil {
			return nil, err
		}
	}
	c.wanted = len(c.kids) == 0 && pick(path)
	for _, k := range c.kids { // so that an unwanted list costs nothing
		c.wanted = c.wanted || k.wanted
	}
	return c, nil
}

// pruned is the fields that are wanted, as far as they are.
func pruned(fields []arrow.Field, cols []*column) []arrow.Field {
	var out []arrow.Field
	for i, c := range cols {
		if c.wanted {
			f := fields[i]
			f.Type = c.typ
			out = append(out, f)
		}
	}
	return out
}

// load is a batch that is about to be decoded: which buffers are needed and what they
// come to.
type load struct {
	file   *File
	head   *header
	wanted []bool  // by buffer
	sizes  []int64 // decompressed, of those that are wanted; -1 as stored
	total  int64
}

// plan finds out which buffers of batch i the columns need and how large they are.
func (f *File) plan(i int, cols []*column) (*load, error) {
	h, err := f.header(i)
	if err != nil {
		return nil, err
	}
	l := &load{file: f, head: h, wanted: make([]bool, len(h.buffers)), sizes: make([]int64, len(h.buffers))}
	node, buf := 0, 0
	if err := l.visit(cols, &node, &buf); err != nil {
		return nil, err
	}
	if node != len(h.nodes) || buf != len(h.buffers) {
		return nil, fmt.Errorf("has %d nodes and %d buffers, its schema %d and %d", len(h.nodes), len(h.buffers), node, buf)
	}
	for j, want := range l.wanted {
		if !want {
			continue
		}
		n := h.buffers[j].n
		l.sizes[j] = n
		if h.packed {
			var prefix [8]byte
			if n < 8 {
				return nil, fmt.Errorf("buffer %d has %d bytes", j, n)
			}
			if _, err := f.r.ReadAt(prefix[:], h.at+h.buffers[j].off); err != nil {
				return nil, err
			}
			if l.sizes[j] = int64(binary.LittleEndian.Uint64(prefix[:])); l.sizes[j] == -1 {
				n -= 8
			} else {
				n = l.sizes[j]
			}
		}
		if n < 0 || n > maxBatch-l.total {
			return nil, fmt.Errorf("buffer %d of %d bytes is more than any batch has", j, n)
		}
		l.total += align(n)
	}
	return l, nil
}

func align(n int64) int64 { return (n + 63) &^ 63 }

func (l *load) visit(cols []*column, node, buf *int) error {
	for _, c := range cols {
		if *node >= len(l.head.nodes) || *buf+c.buffers > len(l.head.buffers) {
			return fmt.Errorf("has too few nodes or buffers for its schema")
		}
		if c.wanted {
			for j := range c.buffers {
				bitmap := j == 0
				l.wanted[*buf+j] = l.head.buffers[*buf+j].n > 0 && !(bitmap && l.head.nodes[*node].nulls == 0)
			}
		}
		*node++
		*buf += c.buffers
		if err := l.visit(c.kids, node, buf); err != nil {
			return err
		}
	}
	return nil
}

// scratch is the memory that batches are decoded into, one after the other.
type scratch struct {
	zstd   *zstd.Decoder
	packed []byte
	arena  []byte
	used   int64
}

var scratches = sync.Pool{New: func() any {
	// The frames' own checksums say nothing that the file's sha256 has not said.
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBatch), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true))
	if err != nil {
		panic(err) // only options can be wrong
	}
	return &scratch{zstd: z}
}}

// done gives the scratch back; what it holds beyond the ordinary is freed.
func (s *scratch) done() {
	if cap(s.arena) > 4*batchBytes {
		s.arena = nil
	}
	if cap(s.packed) > 4*batchBytes {
		s.packed = nil
	}
	scratches.Put(s)
}

// decode makes a struct of the wanted columns, which lives in s until its next batch.
func (l *load) decode(fields []arrow.Field, cols []*column, s *scratch) (*array.Struct, error) {
	if int64(cap(s.arena)) < l.total {
		s.arena = make([]byte, l.total)
	}
	s.arena, s.used = s.arena[:cap(s.arena)], 0
	buffers := make([]*memory.Buffer, len(l.wanted))
	for i, want := range l.wanted {
		if !want {
			continue
		}
		b, err := l.buffer(i, s)
		if err != nil {
			return nil, fmt.Errorf("buffer %d: %w", i, err)
		}
		buffers[i] = memory.NewBufferBytes(b)
	}
	node, buf := 0, 0
	kids, err := l.arrays(cols, buffers, &node, &buf)
	if err != nil {
		return nil, err
	}
	for _, k := range kids {
		if int64(k.Len()) != l.head.rows {
			return nil, fmt.Errorf("has %d rows and a column of %d", l.head.rows, k.Len())
		}
	}
	return array.NewStructData(array.NewData(arrow.StructOf(fields...), int(l.head.rows), []*memory.Buffer{nil}, kids, 0, 0)), nil
}

func (l *load) buffer(i int, s *scratch) ([]byte, error) {
	sp, size := l.head.buffers[i], l.sizes[i]
	stored := !l.head.packed || size == -1
	if l.head.packed {
		sp.off, sp.n = sp.off+8, sp.n-8
	}
	if stored {
		size = sp.n
	}
	dst := s.arena[s.used : s.used+size : s.used+align(size)]
	s.used += align(size)
	src := dst
	if !stored {
		if int64(cap(s.packed)) < sp.n {
			s.packed = make([]byte, sp.n+sp.n/4)
		}
		src = s.packed[:sp.n]
	}
	if _, err := l.file.r.ReadAt(src, l.head.at+sp.off); err != nil {
		return nil, err
	}
	if stored {
		return dst, nil
	}
	out, err := s.zstd.DecodeAll(src, dst[:0:size])
	if err == nil && int64(len(out)) != size {
		err = fmt.Errorf("has %d bytes, expected %d", len(out), size)
	}
	return out, err
}

func (l *load) arrays(cols []*column, buffers []*memory.Buffer, node, buf *int) ([]arrow.ArrayData, error) {
	var out []arrow.ArrayData
	for _, c := range cols {
		n := l.head.nodes[*node]
		mine := buffers[*buf : *buf+c.buffers]
		*node++
		*buf += c.buffers
		kids, err := l.arrays(c.kids, buffers, node, buf)
		if err != nil {
			return nil, err
		}
		if !c.wanted {
			continue
		}
		data := array.NewData(c.typ, int(n.length), mine, kids, int(n.nulls), 0)
		if _, text := c.typ.(*arrow.LargeStringType); text {
			if err := checkText(array.NewLargeStringData(data)); err != nil {
				return nil, within(c.path, err)
			}
		}
		out = append(out, data)
	}
	return out, nil
}

// checkText refuses a column that another program filled with bytes that are no UTF-8.
func checkText(a *array.LargeString) error {
	whole := utf8.Valid(a.ValueBytes())
	for i := range a.Len() {
		v := a.Value(i)
		if whole && (len(v) == 0 || utf8.RuneStart(v[0])) || !whole && utf8.ValidString(v) {
			continue
		}
		return fmt.Errorf("value %d is not valid UTF-8", i)
	}
	return nil
}
