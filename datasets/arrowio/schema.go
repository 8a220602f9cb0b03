package arrowio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// Schema describes a row type, in words that do not depend on Arrow.
type Schema struct {
	Name        string  `json:"name"`
	Version     int     `json:"version"`
	Fingerprint string  `json:"fingerprint"` // seal.Sum of name, version and fields
	Fields      []Field `json:"fields"`
}

// Field is a column or a part of one.
type Field struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"` // bool, int8 … uint64, float32, float64, string, bytes, timestamp, list, struct
	Nullable bool    `json:"nullable,omitempty"`
	Volatile bool    `json:"volatile,omitempty"` // may differ between two runs of the same inputs
	Blob     bool    `json:"blob,omitempty"`     // holds the sha256 of a blob, or ""
	Fields   []Field `json:"fields,omitempty"`   // of a struct; of a list its one element
}

// SchemaOf is the schema of R. It panics when R has a field that cannot be stored,
// which is a fault of the program and independent of any data.
func SchemaOf[R record.Row]() Schema { return codecOf[R]().schema }

func (s *Schema) seal() {
	var err error
	s.Fingerprint, err = seal.Sum([]any{s.Name, s.Version, s.Fields})
	if err != nil {
		panic(err) // strings, ints and booleans always marshal
	}
}

// Metadata keys of the files.
const (
	metaName     = "orchard.schema.name"
	metaVersion  = "orchard.schema.version"
	metaVolatile = "orchard.volatile"
	metaBlob     = "orchard.blob"
)

// Metadata is what every file says of its rows.
func (s Schema) Metadata() *arrow.Metadata {
	md := arrow.NewMetadata([]string{metaName, metaVersion}, []string{s.Name, strconv.Itoa(s.Version)})
	return &md
}

// metadata of a field is empty unless a tag says more than its type.
func (f Field) metadata() arrow.Metadata {
	var keys, values []string
	if f.Volatile {
		keys, values = append(keys, metaVolatile), append(values, "true")
	}
	if f.Blob {
		keys, values = append(keys, metaBlob), append(values, "true")
	}
	return arrow.NewMetadata(keys, values)
}

// Check says which of some dotted paths is no field of the schema, or nil.
func (s Schema) Check(paths []string) error {
	for _, path := range paths {
		fields := s.Fields
		for name := range strings.SplitSeq(path, ".") {
			i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
			if i < 0 {
				names := make([]string, len(fields))
				for i, f := range fields {
					names[i] = f.Name
				}
				return fmt.Errorf("%s has no column %q; there is %s", s.Name, path, strings.Join(names, ", "))
			}
			fields = fields[i].members()
		}
	}
	return nil
}

// members is the fields of a struct, or of the structs of a list.
func (f Field) members() []Field {
	if f.Type == "list" {
		return f.Fields[0].members()
	}
	return f.Fields
}
