package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"orchard/internal/objstore"
)

// Names is every dataset of a root that has a version, sorted. It lists the whole
// store, so it is for people.
func Names(ctx context.Context, store objstore.Store) ([]string, error) {
	var names []string
	for info, err := range store.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store, err)
		}
		parts := strings.Split(info.Key, "/")
		if len(parts) != 4 || parts[1] != "versions" || parts[3] != "manifest.json" || CheckName(parts[0]) != nil {
			continue
		}
		if len(names) == 0 || names[len(names)-1] != parts[0] {
			names = append(names, parts[0])
		}
	}
	return names, nil
}

// Versions yields every version of a dataset by digest; one that cannot be opened as
// an error, after which it goes on.
func Versions(ctx context.Context, store objstore.Store, name string) iter.Seq2[*Version, error] {
	return func(yield func(*Version, error) bool) {
		for digest, err := range digests(ctx, store, name, "") {
			var v *Version
			if err == nil {
				v, err = OpenIn(ctx, store, name, digest)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// Ancestor is something that a version was made from, directly or not.
type Ancestor struct {
	Input
	Depth   int      // 1 is an input of the version itself
	Version *Version // nil for a file, and when Err says why it could not be opened
	Err     error
}

// Lineage is all that a version was made from, depth first; what occurs twice is
// followed once. A dataset is looked for beside its child first, then where it was.
func Lineage(ctx context.Context, opener Opener, v *Version) []Ancestor {
	seen := map[string]bool{}
	var out []Ancestor
	var visit func(v *Version, depth int)
	visit = func(v *Version, depth int) {
		for _, in := range v.manifest.Inputs {
			a := Ancestor{Input: in, Depth: depth}
			if in.Kind == InputDataset {
				a.Version, a.Err = openInput(ctx, opener, v.store, in)
			}
			out = append(out, a)
			if a.Version != nil && !seen[in.Digest] {
				seen[in.Digest] = true
				visit(a.Version, depth+1)
			}
		}
	}
	visit(v, 1)
	return out
}

func openInput(ctx context.Context, opener Opener, store objstore.Store, in Input) (*Version, error) {
	v, err := OpenIn(ctx, store, in.Name, in.Digest)
	if !errors.Is(err, ErrNotFound) {
		return v, err
	}
	loc, perr := Parse(in.URI)
	if perr != nil || loc.Root == store.String() {
		return nil, err
	}
	return Open(ctx, opener, loc.At(in.Digest).String())
}
