package arrowio

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// columnError is trouble with one value; the column is put together on the way up.
type columnError struct {
	column string
	err    error
}

func (e *columnError) Error() string { return fmt.Sprintf("column %s: %v", e.column, e.err) }
func (e *columnError) Unwrap() error { return e.err }

// within names the column that err came from; nil stays nil.
func within(column string, err error) error {
	if err == nil {
		return nil
	}
	var c *columnError
	if !errors.As(err, &c) {
		return &columnError{column, err}
	}
	if c.column[0] != '[' {
		column += "."
	}
	return &columnError{column + c.column, c.err}
}

var errUTF8 = errors.New("not valid UTF-8 (text that may not be goes through a datasets.Keeper)")

// append adds v to the column that b builds, and what it weighs to size: a rough
// number of bytes that depends on the value alone.
func (n *node) append(b array.Builder, v reflect.Value, size *int64) error {
	if n.Nullable {
		if v.IsNil() {
			b.AppendNull()
			*size++
			return nil
		}
		v = v.Elem()
	}
	*size += 8
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for i, c := range n.children {
			if err := c.append(b.FieldBuilder(i), v.Field(c.index), size); err != nil {
				return within(c.Name, err)
			}
		}
	case *array.ListBuilder:
		b.Append(true)
		if bulk(b.ValueBuilder(), v) {
			*size += 8 * int64(v.Len())
			return nil
		}
		for i := range v.Len() {
			if err := n.children[0].append(b.ValueBuilder(), v.Index(i), size); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
	case *array.LargeStringBuilder:
		s := v.String()
		if !utf8.ValidString(s) {
			return errUTF8
		}
		b.Append(s)
		*size += int64(len(s))
	case *array.StringBuilder: // Parquet
		s := v.String()
		if !utf8.ValidString(s) {
			return errUTF8
		}
		b.Append(s)
		*size += int64(len(s))
	case *array.BinaryBuilder: // large_binary too
		b.Append(v.Bytes())
		*size += int64(v.Len())
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.Interface().(time.Time).UnixMicro()))
	case *array.BooleanBuilder:
		b.Append(v.Bool())
	case *array.Int8Builder:
		b.Append(int8(v.Int()))
	case *array.Int16Builder:
		b.Append(int16(v.Int()))
	case *array.Int32Builder:
		b.Append(int32(v.Int()))
	case *array.Int64Builder:
		b.Append(v.Int())
	case *array.Uint8Builder:
		b.Append(uint8(v.Uint()))
	case *array.Uint16Builder:
		b.Append(uint16(v.Uint()))
	case *array.Uint32Builder:
		b.Append(uint32(v.Uint()))
	case *array.Uint64Builder:
		b.Append(v.Uint())
	case *array.Float32Builder:
		b.Append(float32(v.Float()))
	case *array.Float64Builder:
		b.Append(v.Float())
	default:
		return fmt.Errorf("no way to write %s", n.arrow)
	}
	return nil
}

// bulk appends the lists that are long: token ids and their log-probabilities.
func bulk(b array.Builder, v reflect.Value) bool {
	switch b := b.(type) {
	case *array.Int32Builder:
		if s, ok := v.Interface().([]int32); ok {
			b.AppendValues(s, nil)
			return true
		}
	case *array.Float32Builder:
		if s, ok := v.Interface().([]float32); ok {
			b.AppendValues(s, nil)
			return true
		}
	}
	return false
}
