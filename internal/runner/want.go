package runner

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/internal/exit"
)

// Want refuses a version that holds rows of another kind than a flag is for. maker is the
// command that makes such datasets.
func Want(v *datasets.Version, flag, kind, maker string) error {
	if got := v.Manifest().Schema.Name; got != kind {
		return exit.Inputf("--%s %s: holds %s rows, not %s rows; `orchard %s` makes such a dataset", flag, v.Location(), got, kind, maker)
	}
	return nil
}

// OpenAs opens the dataset that a flag of a stage's own names, of a kind that Want checks.
func OpenAs(ctx context.Context, open datasets.Opener, flag, uri, kind, maker string) (*datasets.Version, error) {
	v, err := datasets.Open(ctx, open, uri)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return v, Want(v, flag, kind, maker)
}
