package arrowio

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// readFunc stores value i of a column in dst.
type readFunc func(a arrow.Array, i int, dst reflect.Value)

// selection is the columns that are wanted, by dotted path; empty means all.
type selection []string

// has says whether a path, one above it or one below it is wanted.
func (s selection) has(path string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(want string) bool {
		return want == path || strings.HasPrefix(path, want+".") || strings.HasPrefix(want, path+".")
	})
}

// bindStruct matches the fields of a file with those of a Go struct, by name. Columns
// that the struct does not know are left; a column that the file lacks must be
// nullable, as only such fields may have been added since.
func (n *node) bindStruct(fields []arrow.Field, path string, sel selection) (readFunc, error) {
	type member struct {
		column, index int
		read          readFunc
	}
	var members []member
	for _, c := range n.children {
		name := strings.TrimPrefix(path+"."+c.Name, ".")
		if !sel.has(name) {
			continue
		}
		i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == c.Name })
		if i < 0 && c.Nullable {
			continue
		}
		if i < 0 {
			return nil, fmt.Errorf("column %s is missing", name)
		}
		read, err := c.bind(fields[i], name, sel)
		if err != nil {
			return nil, err
		}
		members = append(members, member{i, c.index, read})
	}
	return func(a arrow.Array, i int, dst reflect.Value) {
		s := a.(*array.Struct)
		for _, m := range members {
			m.read(s.Field(m.column), i, dst.Field(m.index))
		}
	}, nil
}

func (n *node) bind(f arrow.Field, path string, sel selection) (readFunc, error) {
	read, err := n.bindValue(f, path, sel)
	if err != nil || !n.Nullable {
		return read, err
	}
	return func(a arrow.Array, i int, dst reflect.Value) {
		if a.IsNull(i) {
			return
		}
		p := reflect.New(n.typ)
		read(a, i, p.Elem())
		dst.Set(p)
	}, nil
}

func (n *node) bindValue(f arrow.Field, path string, sel selection) (readFunc, error) {
	switch t := f.Type.(type) {
	case *arrow.StructType:
		if n.Type == "struct" {
			return n.bindStruct(t.Fields(), path, sel)
		}
	case *arrow.ListType:
		if n.Type == "list" {
			return n.bindList(t, path, sel)
		}
	default:
		if arrow.TypeEqual(f.Type, n.arrow) {
			return readScalar, nil
		}
	}
	return nil, fmt.Errorf("column %s: holds %s, expected %s", path, f.Type, n.arrow)
}

func (n *node) bindList(t *arrow.ListType, path string, sel selection) (readFunc, error) {
	item, err := n.children[0].bind(t.ElemField(), path, sel)
	if err != nil {
		return nil, err
	}
	return func(a arrow.Array, i int, dst reflect.Value) {
		l := a.(*array.List)
		from, to := l.ValueOffsets(i)
		size := int(to - from)
		s := reflect.MakeSlice(n.typ, size, size)
		dst.Set(s)
		switch v := l.ListValues().(type) {
		case *array.Int32:
			if d, ok := s.Interface().([]int32); ok {
				copy(d, v.Int32Values()[from:to])
				return
			}
		case *array.Float32:
			if d, ok := s.Interface().([]float32); ok {
				copy(d, v.Float32Values()[from:to])
				return
			}
		}
		for j := range size {
			item(l.ListValues(), int(from)+j, s.Index(j))
		}
	}, nil
}

// readScalar copies what it reads, so that a kept value does not keep its batch.
func readScalar(a arrow.Array, i int, dst reflect.Value) {
	switch a := a.(type) {
	case *array.LargeString:
		dst.SetString(strings.Clone(a.Value(i)))
	case *array.LargeBinary:
		dst.SetBytes(append([]byte{}, a.Value(i)...))
	case *array.Timestamp:
		dst.Set(reflect.ValueOf(time.UnixMicro(int64(a.Value(i))).UTC()))
	case *array.Boolean:
		dst.SetBool(a.Value(i))
	case *array.Int8:
		dst.SetInt(int64(a.Value(i)))
	case *array.Int16:
		dst.SetInt(int64(a.Value(i)))
	case *array.Int32:
		dst.SetInt(int64(a.Value(i)))
	case *array.Int64:
		dst.SetInt(a.Value(i))
	case *array.Uint8:
		dst.SetUint(uint64(a.Value(i)))
	case *array.Uint16:
		dst.SetUint(uint64(a.Value(i)))
	case *array.Uint32:
		dst.SetUint(uint64(a.Value(i)))
	case *array.Uint64:
		dst.SetUint(a.Value(i))
	case *array.Float32:
		dst.SetFloat(float64(a.Value(i)))
	case *array.Float64:
		dst.SetFloat(a.Value(i))
	}
}
