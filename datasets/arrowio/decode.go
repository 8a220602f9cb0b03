package arrowio

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"orchard/datasets/record"
)

// Query is what is wanted of a file; the zero value is all of it.
type Query struct {
	// Columns are dotted paths, which also select parts of a struct or of the structs of
	// a list. Others are not decompressed, and are zero or absent in what is read.
	Columns []string
	// Where are conditions that all hold of a row.
	Where []Predicate
}

// Decoder makes rows of a file's batches. Safe for concurrent use: each batch on its own.
type Decoder[T any] struct {
	file   *File
	fields []arrow.Field // as far as they are wanted
	cols   []*column
	where  []Predicate
	// What the conditions look at is read before, and the rest only of a batch in which
	// a row passes.
	whereFields []arrow.Field
	whereCols   []*column
	make        func(batch *array.Struct, i int) (T, error)
}

// Decode reads rows of type R. Columns that R does not know are left, and those that
// the file lacks must be nullable.
func Decode[R record.Row](f *File, q Query) (*Decoder[R], error) {
	c := codecOf[R]()
	d, err := newDecoder[R](f, q, c.schema)
	if err != nil {
		return nil, err
	}
	read, err := c.row.bindStruct(d.fields, "", q.Columns)
	if err != nil {
		return nil, err
	}
	d.make = func(batch *array.Struct, i int) (row R, err error) {
		read(batch, i, reflect.ValueOf(&row).Elem())
		return row, nil
	}
	return d, nil
}

// DecodeObjects reads rows of any type.
func DecodeObjects(f *File, q Query) (*Decoder[Object], error) {
	s, err := f.Schema()
	if err != nil {
		return nil, err
	}
	d, err := newDecoder[Object](f, q, s)
	if err != nil {
		return nil, err
	}
	d.make = object
	return d, nil
}

func newDecoder[T any](f *File, q Query, s Schema) (*Decoder[T], error) {
	if err := s.Check(q.Columns); err != nil {
		return nil, err
	}
	d := &Decoder[T]{file: f}
	for _, p := range q.Where {
		p, err := p.Resolve(s)
		if err != nil {
			return nil, err
		}
		d.where = append(d.where, p)
	}
	var err error
	if d.cols, err = tree(f.schema.Fields(), "", selection(q.Columns).has); err != nil {
		return nil, err
	}
	d.fields = pruned(f.schema.Fields(), d.cols)
	var names selection
	for _, p := range d.where {
		names = append(names, p.Column)
	}
	if d.whereCols, err = tree(f.schema.Fields(), "", func(path string) bool { return len(names) > 0 && names.has(path) }); err != nil {
		return nil, err
	}
	d.whereFields = pruned(f.schema.Fields(), d.whereCols)
	return d, nil
}

// Schema is the file's.
func (f *File) Schema() (Schema, error) { return describe(f.schema) }

// Batches is how many batches the file has.
func (d *Decoder[T]) Batches() int { return len(d.file.blocks) }

// Weight is about how much memory Rows of a batch takes, in bytes.
func (d *Decoder[T]) Weight(i int) (weight int64, err error) {
	err = guard(func() error {
		l, err := d.file.plan(i, d.cols)
		if err == nil {
			var zero T
			weight = 2*l.total + l.head.rows*int64(reflect.TypeOf(&zero).Elem().Size())
		}
		return err
	})
	return weight, batchError(i, err)
}

// Rows is the rows of a batch that pass. They share no memory with it.
func (d *Decoder[T]) Rows(i int) (rows []T, err error) {
	s := scratches.Get().(*scratch)
	defer s.done()
	err = guard(func() error {
		passed, n, err := d.filter(i, s)
		if err != nil || n == 0 {
			return err
		}
		batch, err := d.batch(i, d.fields, d.cols, s)
		if err != nil {
			return err
		}
		if passed == nil {
			n = batch.Len()
		}
		rows = make([]T, 0, n)
		for j := range batch.Len() {
			if passed != nil && !passed[j] {
				continue
			}
			row, err := d.make(batch, j)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, batchError(i, err)
}

func batchError(i int, err error) error {
	if err != nil {
		return fmt.Errorf("arrow file: batch %d: %w", i, err)
	}
	return nil
}

func (d *Decoder[T]) batch(i int, fields []arrow.Field, cols []*column, s *scratch) (*array.Struct, error) {
	l, err := d.file.plan(i, cols)
	if err != nil {
		return nil, err
	}
	return l.decode(fields, cols, s)
}

// filter says which rows of a batch pass, and how many; nil is all of them.
func (d *Decoder[T]) filter(i int, s *scratch) (passed []bool, n int, err error) {
	if len(d.where) == 0 {
		return nil, 1, nil
	}
	batch, err := d.batch(i, d.whereFields, d.whereCols, s)
	if err != nil {
		return nil, 0, err
	}
	passed = make([]bool, batch.Len())
	for j := range passed {
		passed[j] = true
	}
	for _, p := range d.where {
		get := leaf(batch, p.Column)
		for j := range passed {
			passed[j] = passed[j] && p.holds(get(j))
		}
	}
	for _, ok := range passed {
		n += b2i(ok)
	}
	return passed, n, nil
}

// All yields the rows of all batches in order.
func (d *Decoder[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range d.Batches() {
			rows, err := d.Rows(i)
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
		}
	}
}
