package arrowio

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"orchard/datasets/record"
)

// codec is what a row type compiles to.
type codec struct {
	schema Schema
	row    *node
}

// node is one field of a row type with its place in Go and in Arrow.
type node struct {
	Field
	typ      reflect.Type   // without the pointer of a nullable field
	index    int            // of the field in its Go struct
	arrow    arrow.DataType // as stored in IPC files
	children []*node        // of a struct; of a list its one element
	blobs    bool           // it or a child holds a blob reference
}

var codecs sync.Map // reflect.Type -> *codec

func codecOf[R record.Row]() *codec {
	typ := reflect.TypeFor[R]()
	if c, ok := codecs.Load(typ); ok {
		return c.(*codec)
	}
	var zero R
	c := &codec{}
	c.schema.Name, c.schema.Version = zero.Schema()
	row, err := compile(typ, 0)
	if err != nil {
		panic(fmt.Sprintf("row type %s: %v", typ, err))
	}
	if row.Type != "struct" || row.Nullable {
		panic(fmt.Sprintf("row type %s: must be a struct", typ))
	}
	c.row = row
	c.schema.Fields = row.Fields
	c.schema.seal()
	codecs.Store(typ, c)
	return c
}

var timeType = reflect.TypeFor[time.Time]()

// utc is the one time type of all columns.
var utc = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}

var scalars = map[reflect.Kind]struct {
	name string
	typ  arrow.DataType
}{
	reflect.Bool:    {"bool", arrow.FixedWidthTypes.Boolean},
	reflect.Int8:    {"int8", arrow.PrimitiveTypes.Int8},
	reflect.Int16:   {"int16", arrow.PrimitiveTypes.Int16},
	reflect.Int32:   {"int32", arrow.PrimitiveTypes.Int32},
	reflect.Int64:   {"int64", arrow.PrimitiveTypes.Int64},
	reflect.Int:     {"int64", arrow.PrimitiveTypes.Int64},
	reflect.Uint8:   {"uint8", arrow.PrimitiveTypes.Uint8},
	reflect.Uint16:  {"uint16", arrow.PrimitiveTypes.Uint16},
	reflect.Uint32:  {"uint32", arrow.PrimitiveTypes.Uint32},
	reflect.Uint64:  {"uint64", arrow.PrimitiveTypes.Uint64},
	reflect.Float32: {"float32", arrow.PrimitiveTypes.Float32},
	reflect.Float64: {"float64", arrow.PrimitiveTypes.Float64},
	reflect.String:  {"string", arrow.BinaryTypes.LargeString},
}

func compile(t reflect.Type, depth int) (*node, error) {
	if depth > 32 {
		return nil, fmt.Errorf("is nested too deep, or contains itself")
	}
	n := &node{typ: t}
	if t.Kind() == reflect.Pointer {
		n.Nullable, n.typ = true, t.Elem()
	}
	s, scalar := scalars[n.typ.Kind()]
	switch {
	case scalar:
		n.Type, n.arrow = s.name, s.typ
	case n.typ == timeType:
		n.Type, n.arrow = "timestamp", utc
	case n.Nullable && n.typ.Kind() != reflect.Struct:
		return nil, fmt.Errorf("type %s cannot be null", n.typ)
	case n.typ.Kind() == reflect.Slice && n.typ.Elem().Kind() == reflect.Uint8:
		n.Type, n.arrow = "bytes", arrow.BinaryTypes.LargeBinary
	case n.typ.Kind() == reflect.Slice:
		item, err := compile(n.typ.Elem(), depth+1)
		if err != nil {
			return nil, err
		}
		item.Name = "item"
		n.Type, n.blobs = "list", item.blobs
		n.children, n.Fields = []*node{item}, []Field{item.Field}
		n.arrow = arrow.ListOfField(item.column())
	case n.typ.Kind() == reflect.Struct:
		return n, n.compileStruct(depth)
	default:
		return nil, fmt.Errorf("type %s cannot be stored", n.typ)
	}
	return n, nil
}

func (n *node) compileStruct(depth int) error {
	n.Type = "struct"
	var columns []arrow.Field
	for i := range n.typ.NumField() {
		f := n.typ.Field(i)
		name := f.Tag.Get("json")
		if !f.IsExported() || f.Anonymous || name == "" || name == "-" {
			return fmt.Errorf("field %s: must be exported, named, and have a json tag", f.Name)
		}
		child, err := compile(f.Type, depth+1)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		child.Name, child.index = name, i
		child.Volatile = f.Tag.Get("volatile") == "true"
		child.Blob = f.Tag.Get("blob") == "true"
		if child.Blob && (child.Type != "string" || child.Nullable) {
			return fmt.Errorf("field %s: a blob reference must be a string", f.Name)
		}
		child.blobs = child.blobs || child.Blob
		n.blobs = n.blobs || child.blobs
		n.children = append(n.children, child)
		n.Fields = append(n.Fields, child.Field)
		columns = append(columns, child.column())
	}
	n.arrow = arrow.StructOf(columns...)
	return nil
}

func (n *node) column() arrow.Field {
	return arrow.Field{Name: n.Name, Type: n.arrow, Nullable: n.Nullable, Metadata: n.metadata()}
}

func (c *codec) arrowSchema() *arrow.Schema {
	return arrow.NewSchema(c.row.arrow.(*arrow.StructType).Fields(), c.schema.Metadata())
}

// Blobs is every blob that a row names, in the order of its fields, with repeats.
func Blobs[R record.Row](row R) []string {
	var out []string
	codecOf[R]().row.visitBlobs(reflect.ValueOf(row), func(sha string) { out = append(out, sha) })
	return out
}

func (n *node) visitBlobs(v reflect.Value, visit func(string)) {
	if !n.blobs {
		return
	}
	if n.Nullable {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch n.Type {
	case "string":
		if v.Len() > 0 {
			visit(v.String())
		}
	case "list":
		for i := range v.Len() {
			n.children[0].visitBlobs(v.Index(i), visit)
		}
	case "struct":
		for _, c := range n.children {
			c.visitBlobs(v.Field(c.index), visit)
		}
	}
}
