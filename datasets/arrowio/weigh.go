package arrowio

import (
	"reflect"

	"orchard/datasets/record"
)

// Weigh is about how many bytes of memory a row takes.
func Weigh[R record.Row](row R) int64 {
	n := codecOf[R]().row
	return int64(n.typ.Size()) + n.weigh(reflect.ValueOf(row))
}

// weigh is what v holds beyond itself.
func (n *node) weigh(v reflect.Value) (size int64) {
	if n.Nullable {
		if v.IsNil() {
			return 0
		}
		v = v.Elem()
		size = int64(n.typ.Size())
	}
	switch n.Type {
	case "string", "bytes":
		return size + int64(v.Len())
	case "list":
		item := n.children[0]
		size += int64(v.Len()) * int64(v.Type().Elem().Size())
		if _, scalar := scalars[item.typ.Kind()]; scalar && item.Type != "string" && !item.Nullable {
			return size
		}
		for i := range v.Len() {
			size += item.weigh(v.Index(i))
		}
	case "struct":
		for _, c := range n.children {
			size += c.weigh(v.Field(c.index))
		}
	}
	return size
}
