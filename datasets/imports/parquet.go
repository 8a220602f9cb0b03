package imports

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"orchard/datasets/arrowio"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// readParquet reads a row per row. Lists and structs arrive as JSON would have them.
func readParquet(ctx context.Context, path string, visit Visit) error {
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
	for values, err := range arrowio.ReadParquet(ctx, f, info.Size()) {
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
		if err := visit(row, problem); err != nil {
			return err
		}
	}
	return nil
}

// plain is a Parquet value as JSON has it: times as text, binary as text with U+FFFD,
// what is no number as null.
func plain(v any) any {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []byte:
		return string(bytes.ToValidUTF8(v, []byte("\uFFFD")))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	}
	return v
}
