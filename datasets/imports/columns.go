package imports

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"orchard/datasets/arrowio"
	"orchard/datasets/columns"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// columnar is how the rows of a Parquet or Arrow file are read; nil for another file.
func columnar(path string) func(context.Context, io.ReaderAt, int64) iter.Seq2[map[string]any, error] {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".parquet":
		return arrowio.ReadParquet
	case ".arrow", ".arrows", ".feather", ".ipc":
		return arrowio.ReadArrow
	}
	return nil
}

// readColumns reads a row per row. Lists and structs arrive as JSON would have them.
func readColumns(ctx context.Context, path string, visit Visit) error {
	f, err := os.Open(path)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return exit.With(exit.Input, err)
	}
	if info.Size() == 0 {
		return nil // Read says that there is no row
	}
	n := 0
	for values, err := range columnar(path)(ctx, f, info.Size()) {
		if err != nil && ctx.Err() == nil {
			return exit.Inputf("%s: %w", path, err)
		}
		if err != nil {
			return err
		}
		n++
		place := fmt.Sprintf("%s: row %d", path, n)
		row := Row{Place: place, Values: values}
		var problem *Problem
		raw, err := seal.Canonical(plain(values))
		if err != nil {
			problem = &Problem{Place: place, Field: "json", What: fmt.Sprintf("the row cannot be kept as JSON: %v", err)}
		}
		row.Raw = string(raw)
		if name := notUTF8(values); problem == nil && name != "" {
			problem = &Problem{Place: place, Field: name, What: "holds text that is not valid UTF-8; convert it, or store it as bytes"}
		}
		if err := visit(row, problem); err != nil {
			return err
		}
	}
	return nil
}

// notUTF8 is the first column by name with text that is none; "" when all is well.
func notUTF8(values map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !validText(values[name]) {
			return name
		}
	}
	return ""
}

func validText(v any) bool {
	switch v := v.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !validText(e) })
	case map[string]any:
		return notUTF8(v) == ""
	}
	return true
}

// plain is a value of a column as JSON has it: times as text, bytes that are no text as
// an object with their base64, what is no number as null.
func plain(v any) any {
	return columns.Each(v, func(v any) any {
		switch v := v.(type) {
		case time.Time:
			return v.UTC().Format(time.RFC3339Nano)
		case []byte:
			return map[string]any{rawBytes: base64.StdEncoding.EncodeToString(v)}
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil
			}
		}
		return v
	})
}
