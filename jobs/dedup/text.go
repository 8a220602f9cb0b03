package dedup

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"orchard/datasets"
	"orchard/datasets/columns"
	"orchard/datasets/record"
	"orchard/internal/wording"
)

// texter takes the text to compare out of a task; "" when there is none.
type texter struct {
	needsRaw bool
	take     func(ctx context.Context, in *datasets.Version, t *record.Task, c *columns.Columns, raw map[string]any) (string, error)
}

// textOf is the text of a column, in its normal form.
func textOf(name string) (texter, error) {
	patch := func(of func(*record.Task) record.Text) texter {
		return texter{false, func(ctx context.Context, in *datasets.Version, t *record.Task, _ *columns.Columns, _ map[string]any) (string, error) {
			whole, err := datasets.TextBytes(ctx, in.Store(), of(t))
			return normalPatch(string(whole)), err
		}}
	}
	switch name {
	case "patch":
		return patch(func(t *record.Task) record.Text { return t.GoldPatch }), nil
	case "test_patch":
		return patch(func(t *record.Task) record.Text { return t.TestPatch }), nil
	}
	c, err := findColumn(name)
	if err != nil {
		return texter{}, err
	}
	if c.kind != reflect.String && c.kind != reflect.Invalid {
		return texter{}, fmt.Errorf("%s holds no text", name)
	}
	return texter{c.needsRaw, func(_ context.Context, _ *datasets.Version, _ *record.Task, row *columns.Columns, raw map[string]any) (string, error) {
		switch v := c.take(row, raw).(type) {
		case nil:
			return "", nil
		case string:
			return wording.Normal(v), nil
		default:
			return "", fmt.Errorf("--column %s: holds %v, which is no text", name, v)
		}
	}}, nil
}

// normalPatch is what a patch changes: its files and the lines that it removes and adds,
// without the lines around them and their numbers, so that the same change somewhere else in
// a file is the same. What is no patch is taken as text.
func normalPatch(s string) string {
	files, _, err := gitdiff.Parse(strings.NewReader(s))
	if err != nil || len(files) == 0 {
		return wording.Normal(s)
	}
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%s %s\n", f.OldName, f.NewName)
		for _, part := range f.TextFragments {
			for _, line := range part.Lines {
				if line.Op != gitdiff.OpContext {
					fmt.Fprintf(&b, "%s %s\n", line.Op, line.Line)
				}
			}
		}
		if bin := f.BinaryFragment; bin != nil {
			if _, err := io.Copy(hex.NewEncoder(&b), bin.Data()); err != nil {
				return wording.Normal(s)
			}
		}
	}
	return wording.Normal(b.String())
}
