package importer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unpacked is the built-in task sets that --in names, as folders on disk, since git
// reads repositories from there.
type unpacked struct {
	root string // "" when none was named
	ins  []string
}

// unpack replaces the names of built-in task sets in cfg.In by folders. A folder of
// such a name is reached as ./name.
func unpack(cfg Config) (*unpacked, error) {
	u := &unpacked{}
	for _, in := range cfg.In {
		set, ok := cfg.Builtin[in]
		if !ok {
			u.ins = append(u.ins, in)
			continue
		}
		if u.root == "" {
			var err error
			if u.root, err = os.MkdirTemp("", "orchard-builtin-"); err != nil {
				return nil, fmt.Errorf("make a folder in TMPDIR: %w", err)
			}
		}
		dir := filepath.Join(u.root, in)
		if err := os.CopyFS(dir, set); err != nil {
			return nil, errors.Join(fmt.Errorf("unpack the built-in task set %s: %w", in, err), u.remove())
		}
		u.ins = append(u.ins, dir)
	}
	return u, nil
}

func (u *unpacked) remove() error {
	if u.root == "" {
		return nil
	}
	return os.RemoveAll(u.root)
}

// name is the path of a file in a built-in set, beginning with the set's name; ok is
// false for other files.
func (u *unpacked) name(path string) (name string, ok bool) {
	if u.root == "" {
		return "", false
	}
	rest, ok := strings.CutPrefix(path, u.root+string(filepath.Separator))
	return filepath.ToSlash(rest), ok
}
