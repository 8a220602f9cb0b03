package arrowio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Object is a struct or a row without a Go type, its members in the order of the
// schema. A value is nil, bool, int64, uint64, float32, float64, string, []byte,
// time.Time, json.Number (decimals), []any or Object.
type Object []Member

// Member is one field of an Object.
type Member struct {
	Name  string
	Value any
}

// MarshalJSON keeps the order of the members.
func (o Object) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	buf.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := e.Encode(m.Name); err != nil {
			return nil, err
		}
		buf.Truncate(buf.Len() - 1) // the encoder's line end
		buf.WriteByte(':')
		if err := e.Encode(m.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		buf.Truncate(buf.Len() - 1)
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// value is element i of any array. Strings and bytes are copies.
func value(a arrow.Array, i int) (any, error) {
	if a.IsNull(i) {
		return nil, nil
	}
	switch a := a.(type) {
	case *array.Null:
		return nil, nil
	case *array.Boolean:
		return a.Value(i), nil
	case *array.Int8:
		return int64(a.Value(i)), nil
	case *array.Int16:
		return int64(a.Value(i)), nil
	case *array.Int32:
		return int64(a.Value(i)), nil
	case *array.Int64:
		return a.Value(i), nil
	case *array.Uint8:
		return int64(a.Value(i)), nil
	case *array.Uint16:
		return int64(a.Value(i)), nil
	case *array.Uint32:
		return int64(a.Value(i)), nil
	case *array.Uint64:
		return a.Value(i), nil
	case *array.Float16:
		return a.Value(i).Float32(), nil
	case *array.Float32:
		return a.Value(i), nil
	case *array.Float64:
		return a.Value(i), nil
	case *array.String:
		return string([]byte(a.Value(i))), nil
	case *array.LargeString:
		return string([]byte(a.Value(i))), nil
	case *array.StringView:
		return string([]byte(a.Value(i))), nil
	case *array.BinaryView:
		return bytes.Clone(a.Value(i)), nil
	case *array.Binary:
		return bytes.Clone(a.Value(i)), nil
	case *array.LargeBinary:
		return bytes.Clone(a.Value(i)), nil
	case *array.FixedSizeBinary:
		return bytes.Clone(a.Value(i)), nil
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit), nil
	case *array.Date32:
		return a.Value(i).ToTime(), nil
	case *array.Date64:
		return a.Value(i).ToTime(), nil
	case *array.Time32:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time32Type).Unit).Format(time.TimeOnly + ".999999999"), nil
	case *array.Time64:
		return a.Value(i).ToTime(a.DataType().(*arrow.Time64Type).Unit).Format(time.TimeOnly + ".999999999"), nil
	case *array.Decimal128:
		return json.Number(a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)), nil
	case *array.Decimal256:
		return json.Number(a.Value(i).ToString(a.DataType().(*arrow.Decimal256Type).Scale)), nil
	case *array.Dictionary:
		return value(a.Dictionary(), a.GetValueIndex(i))
	case *array.Struct:
		return object(a, i)
	case *array.Map:
		return entries(a, i)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		list := make([]any, 0, to-from)
		for j := from; j < to; j++ {
			v, err := value(a.ListValues(), int(j))
			if err != nil {
				return nil, within(fmt.Sprintf("[%d]", j-from), err)
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("type %s cannot be read", a.DataType())
}

// plainRow is row i of a batch that another program wrote, as JSON would have it.
func plainRow(batch *array.Struct, i int) (row map[string]any, err error) {
	err = guard(func() error {
		o, err := object(batch, i)
		row, _ = plain(o).(map[string]any)
		return err
	})
	return row, err
}

func object(s *array.Struct, i int) (Object, error) {
	fields := s.DataType().(*arrow.StructType).Fields()
	o := make(Object, len(fields))
	for j, f := range fields {
		v, err := value(s.Field(j), i)
		if err != nil {
			return nil, within(f.Name, err)
		}
		o[j] = Member{f.Name, v}
	}
	return o, nil
}

// entries is a map: an object when its keys are text, else a list of pairs.
func entries(m *array.Map, i int) (any, error) {
	from, to := m.ValueOffsets(i)
	o, pairs, text := Object{}, []any{}, true
	for j := int(from); j < int(to); j++ {
		k, err := value(m.Keys(), j)
		if err != nil {
			return nil, err
		}
		v, err := value(m.Items(), j)
		if err != nil {
			return nil, err
		}
		name, ok := k.(string)
		text = text && ok
		o = append(o, Member{name, v})
		pairs = append(pairs, Object{{"key", k}, {"value", v}})
	}
	if text {
		return o, nil
	}
	return pairs, nil
}
