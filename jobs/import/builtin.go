package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"orchard/datasets"
)

// unpacked is what --in names and is not on this machine's disk, as folders there, since git
// reads repositories from disk and rows are read twice: the task sets that come with the
// program, and objects in a bucket.
type unpacked struct {
	root string // "" when nothing was brought
	ins  []string
	sets []brought
}

// brought is a folder below root and where it is from.
type brought struct {
	dir    string
	uri    string // of the folder
	source string // of its tasks that do not name theirs; "" is each file's name
}

// unpack replaces the names of built-in task sets in cfg.In, and objects in a bucket, by files and
// folders. A folder of such a name is reached as ./name.
func unpack(ctx context.Context, cfg Config, open datasets.Opener) (*unpacked, error) {
	u := &unpacked{}
	for i, in := range cfg.In {
		set, builtin := cfg.Builtin[in]
		remote := strings.HasPrefix(in, "s3://")
		if !builtin && !remote {
			u.ins = append(u.ins, in)
			continue
		}
		if u.root == "" {
			var err error
			if u.root, err = os.MkdirTemp("", "orchard-tasks-"); err != nil {
				return nil, fmt.Errorf("make a folder in TMPDIR: %w", err)
			}
		}
		dir := filepath.Join(u.root, strconv.Itoa(i))
		var err error
		if builtin {
			dir = filepath.Join(dir, in)
			if err = os.CopyFS(dir, set); err != nil {
				err = fmt.Errorf("unpack the built-in task set %s: %w", in, err)
			}
			u.ins, u.sets = append(u.ins, dir), append(u.sets, brought{dir, "builtin:" + in, in})
		} else {
			parent, name := cut(in)
			u.ins, u.sets = append(u.ins, filepath.Join(dir, name)), append(u.sets, brought{dir, parent, ""})
			err = fetch(ctx, in, dir, open)
		}
		if err != nil {
			return nil, errors.Join(err, u.remove())
		}
	}
	return u, nil
}

func (u *unpacked) remove() error {
	if u.root == "" {
		return nil
	}
	return os.RemoveAll(u.root)
}

// origin is where a file that was brought is from; ok is false for other files.
func (u *unpacked) origin(path string) (uri, source string, ok bool) {
	for _, s := range u.sets {
		if path == s.dir {
			return s.uri, s.source, true
		}
		if rest, ok := strings.CutPrefix(path, s.dir+string(filepath.Separator)); ok {
			return s.uri + "/" + filepath.ToSlash(rest), s.source, true
		}
	}
	return "", "", false
}
