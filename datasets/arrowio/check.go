package arrowio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Checked is what Check found in a file.
type Checked struct {
	Rows        int64
	First, Last string // ids
	Stats       map[string]Stat
}

// Check decodes a whole IPC file. It must have exactly the schema that want describes,
// and rows in the order of their ids, which are the first column; no Go type of the
// rows is needed.
func Check(f *File, want Schema) (Checked, error) {
	have, err := f.Schema()
	if err != nil {
		return Checked{}, err
	}
	if have.Fingerprint != want.Fingerprint {
		return Checked{}, fmt.Errorf("has another schema (%s version %d, fingerprint %s) than its manifest: %s", have.Name, have.Version, have.Fingerprint, differ(want.Fields, have.Fields, ""))
	}
	d, err := DecodeObjects(f, Query{})
	if err != nil {
		return Checked{}, err
	}
	out := Checked{}
	t := track(have)
	s := scratches.Get().(*scratch)
	defer s.done()
	for i := range d.Batches() {
		err := guard(func() error {
			batch, err := d.batch(i, d.fields, d.cols, s)
			if err != nil {
				return err
			}
			t.add(batch)
			return out.ids(batch)
		})
		if err != nil {
			return out, batchError(i, err)
		}
	}
	out.Stats = t.stats()
	return out, nil
}

// ids counts the rows of a batch and looks at their order.
func (c *Checked) ids(batch *array.Struct) error {
	ids, ok := batch.Field(0).(*array.LargeString)
	if !ok {
		return fmt.Errorf("its first column is no text, but ids")
	}
	for i := range batch.Len() {
		id := ids.Value(i)
		switch {
		case c.Rows == 0:
			c.First = strings.Clone(id)
		case id == c.Last:
			return fmt.Errorf("row %d: two rows have the id %q", c.Rows, id)
		case id < c.Last:
			return fmt.Errorf("row %d: %q comes after %q; rows are sorted by id", c.Rows, id, c.Last)
		}
		c.Last = id
		c.Rows++
	}
	c.Last = strings.Clone(c.Last) // the batch's memory is used again
	return nil
}

// differ is the first column in which two schemas are not the same.
func differ(want, have []Field, path string) string {
	for _, w := range want {
		i := slices.IndexFunc(have, func(f Field) bool { return f.Name == w.Name })
		if i < 0 {
			return "column " + path + w.Name + " is missing"
		}
		h := have[i]
		if w.Type != h.Type || w.Nullable != h.Nullable || w.Volatile != h.Volatile || w.Blob != h.Blob {
			return fmt.Sprintf("column %s%s is %s, expected %s", path, w.Name, h.words(), w.words())
		}
		if d := differ(w.Fields, h.Fields, path+w.Name+"."); d != "" {
			return d
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(f Field) bool { return f.Name == h.Name }) {
			return "column " + path + h.Name + " is too many"
		}
	}
	if path == "" {
		return "its columns are in another order"
	}
	return ""
}

func (f Field) words() string {
	s := f.Type
	if f.Nullable {
		s += " or null"
	}
	if f.Volatile {
		s += ", volatile"
	}
	if f.Blob {
		s += ", a blob"
	}
	return s
}

// describe is the inverse of Schema's way to Arrow.
func describe(s *arrow.Schema) (Schema, error) {
	name, _ := s.Metadata().GetValue(metaName)
	version, _ := s.Metadata().GetValue(metaVersion)
	out := Schema{Name: name}
	var err error
	if out.Version, err = strconv.Atoi(version); err != nil || name == "" {
		return Schema{}, fmt.Errorf("arrow file: is no dataset shard: schema name %q, version %q", name, version)
	}
	if out.Fields, err = describeFields(s.Fields()); err != nil {
		return Schema{}, fmt.Errorf("arrow file: %w", err)
	}
	out.seal()
	return out, nil
}

func describeFields(fields []arrow.Field) ([]Field, error) {
	var out []Field
	for _, f := range fields {
		d := Field{Name: f.Name, Nullable: f.Nullable}
		d.Volatile = slices.Contains(f.Metadata.Keys(), metaVolatile)
		d.Blob = slices.Contains(f.Metadata.Keys(), metaBlob)
		var err error
		switch t := f.Type.(type) {
		case *arrow.StructType:
			d.Type = "struct"
			d.Fields, err = describeFields(t.Fields())
		case *arrow.ListType:
			d.Type = "list"
			d.Fields, err = describeFields([]arrow.Field{t.ElemField()})
		default:
			d.Type, err = describeScalar(t)
		}
		if err != nil {
			return nil, within(f.Name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func describeScalar(t arrow.DataType) (string, error) {
	switch {
	case arrow.TypeEqual(t, utc):
		return "timestamp", nil
	case t.ID() == arrow.LARGE_BINARY:
		return "bytes", nil
	}
	for _, s := range scalars {
		if arrow.TypeEqual(t, s.typ) {
			return s.name, nil
		}
	}
	return "", fmt.Errorf("type %s is none that a row has", t)
}
