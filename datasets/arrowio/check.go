package arrowio

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// Check decodes a whole IPC file and counts its rows. The file must have exactly the
// schema that want describes; no Go type of it is needed.
func Check(file []byte, want Schema) (rows int64, err error) {
	var schema *arrow.Schema
	err = guard(func() error {
		r, err := ipc.NewFileReader(bytes.NewReader(file))
		if err != nil {
			return err
		}
		defer r.Close()
		schema = r.Schema()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("arrow file: %w", err)
	}
	have, err := describe(schema)
	if err != nil {
		return 0, err
	}
	if have.Fingerprint != want.Fingerprint {
		return 0, fmt.Errorf("has another schema (%s version %d, fingerprint %s) than its manifest", have.Name, have.Version, have.Fingerprint)
	}
	for batch, err := range batches(file) {
		if err != nil {
			return rows, err
		}
		rows += int64(batch.Len())
	}
	return rows, nil
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
