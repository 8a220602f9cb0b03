package untyped

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"orchard/datasets/arrowio"
)

var errKind = errors.New("the value is of another type than the column")

func appendStruct(b *array.StructBuilder, fields []arrowio.Field, o arrowio.Object, size *int64) error {
	if len(o) != len(fields) {
		return fmt.Errorf("%d values for %d columns", len(o), len(fields))
	}
	b.Append(true)
	for i, f := range fields {
		if err := appendValue(b.FieldBuilder(i), f, o[i].Value, size); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// appendValue adds a value to its column, and a rough number of its bytes to size.
func appendValue(b array.Builder, f arrowio.Field, v any, size *int64) error {
	*size += 8
	if v == nil {
		if !f.Nullable {
			return errors.New("is null and may not be")
		}
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.StructBuilder:
		o, ok := v.(arrowio.Object)
		if !ok {
			return errKind
		}
		return appendStruct(b, f.Fields, o, size)
	case *array.ListBuilder:
		list, ok := v.([]any)
		if !ok {
			return errKind
		}
		b.Append(true)
		for i, e := range list {
			if err := appendValue(b.ValueBuilder(), f.Fields[0], e, size); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	}
	switch v := v.(type) {
	case string:
		return appendText(b, v, size)
	case []byte:
		*size += int64(len(v))
		return appendTo(b, v)
	case int64:
		return appendInt(b, v)
	case uint64:
		return appendTo(b, v)
	case bool:
		return appendTo(b, v)
	case float32:
		return appendTo(b, v)
	case float64:
		return appendTo(b, v)
	case time.Time:
		return appendTo(b, arrow.Timestamp(v.UnixMicro()))
	}
	return errKind
}

// appendTo adds v to a column that holds just such values.
func appendTo[T any](b array.Builder, v T) error {
	column, ok := b.(interface{ Append(T) })
	if !ok {
		return errKind
	}
	column.Append(v)
	return nil
}

func appendText(b array.Builder, s string, size *int64) error {
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8")
	}
	*size += int64(len(s))
	switch b := b.(type) {
	case *array.LargeStringBuilder:
		b.Append(s)
	case *array.StringBuilder:
		b.Append(s)
	default:
		return errKind
	}
	return nil
}

func appendInt(b array.Builder, v int64) error {
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Int16Builder:
		b.Append(int16(v))
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	case *array.Uint8Builder:
		b.Append(uint8(v))
	case *array.Uint16Builder:
		b.Append(uint16(v))
	case *array.Uint32Builder:
		b.Append(uint32(v))
	case *array.Uint64Builder:
		b.Append(uint64(v))
	default:
		return errKind
	}
	return nil
}
