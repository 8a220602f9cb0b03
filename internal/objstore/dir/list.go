package dir

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"orchard/internal/objstore"
)

// List walks the folder that the prefix lies in. It holds one folder's names at a
// time; what appears or goes during the walk may or may not be seen.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		start := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			start = prefix[:i]
			if objstore.CheckKey(start) != nil {
				return // no key can have this prefix
			}
		}
		s.walk(ctx, start, prefix, yield)
	}
}

// walk yields the objects below folder (a key, "" for the root) and says whether to go on.
func (s *Store) walk(ctx context.Context, folder, prefix string, yield func(objstore.Info, error) bool) bool {
	if err := ctx.Err(); err != nil {
		return yield(objstore.Info{}, err)
	}
	name := filepath.Join(s.root, filepath.FromSlash(folder))
	entries, err := os.ReadDir(name)
	if err != nil {
		if err = explain("list", name, err); errors.Is(err, objstore.ErrNotFound) {
			return true
		}
		return yield(objstore.Info{}, err)
	}
	// Byte order of keys is not that of names: a-b comes before a/b, though a before a-b.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return strings.Compare(sortName(a), sortName(b))
	})
	for _, e := range entries {
		if hidden(e.Name()) {
			continue
		}
		key := path.Join(folder, e.Name())
		switch {
		case e.IsDir():
			below := key + "/"
			if !strings.HasPrefix(below, prefix) && !strings.HasPrefix(prefix, below) {
				continue
			}
			if !s.walk(ctx, key, prefix, yield) {
				return false
			}
		case e.Type().IsRegular() && strings.HasPrefix(key, prefix):
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return yield(objstore.Info{}, explain("list", filepath.Join(name, e.Name()), err))
			}
			if !yield(info(key, fi), nil) {
				return false
			}
		}
	}
	return true
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}
