package untyped

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"orchard/datasets/arrowio"
)

// types is which Arrow types a format uses for text, bytes and the elements of lists.
type types struct {
	text, bytes arrow.DataType
	element     string
	// optional makes the elements of lists nullable: Arrow 17 makes them optional in
	// Parquet, and a stored schema that says otherwise makes polars read other values.
	optional bool
	marks    bool // fields carry our metadata
}

var (
	// wide is what shards have.
	wide = types{arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary, "item", false, true}
	// narrow is what loaders of Parquet expect: they refuse to join files that differ in it.
	narrow = types{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, "element", true, false}
)

var scalars = map[string]arrow.DataType{
	"bool": arrow.FixedWidthTypes.Boolean,
	"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16,
	"int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
	"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16,
	"uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
	"float32": arrow.PrimitiveTypes.Float32, "float64": arrow.PrimitiveTypes.Float64,
	"timestamp": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
}

func columns(fields []arrowio.Field, t types) ([]arrow.Field, error) {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		typ, err := typeOf(f, t)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		out[i] = arrow.Field{Name: f.Name, Type: typ, Nullable: f.Nullable, Metadata: marks(f, t)}
	}
	return out, nil
}

func marks(f arrowio.Field, t types) arrow.Metadata {
	var keys, values []string
	if t.marks && f.Volatile {
		keys, values = append(keys, "orchard.volatile"), append(values, "true")
	}
	if t.marks && f.Blob {
		keys, values = append(keys, "orchard.blob"), append(values, "true")
	}
	return arrow.NewMetadata(keys, values)
}

func typeOf(f arrowio.Field, t types) (arrow.DataType, error) {
	switch f.Type {
	case "string":
		return t.text, nil
	case "bytes":
		return t.bytes, nil
	case "struct":
		inner, err := columns(f.Fields, t)
		return arrow.StructOf(inner...), err
	case "list":
		if len(f.Fields) != 1 {
			return nil, fmt.Errorf("a list of %d kinds", len(f.Fields))
		}
		inner, err := columns(f.Fields, t)
		if err != nil {
			return nil, err
		}
		inner[0].Name = t.element
		inner[0].Nullable = inner[0].Nullable || t.optional
		return arrow.ListOfField(inner[0]), nil
	}
	if s, ok := scalars[f.Type]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("type %q is not known", f.Type)
}
