package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"orchard/internal/sandbox"
)

// applyOutside applies a patch strictly: all of its files are made in memory before
// the first is written.
func (s site) applyOutside(ctx context.Context, patch []byte) (string, error) {
	files, err := parse(patch)
	if err != nil {
		return "", &ApplyError{Words: "gitdiff: " + err.Error()}
	}
	if len(files) == 0 {
		return "", &ApplyError{Words: "gitdiff: no file section in the patch"}
	}
	type change struct {
		file *gitdiff.File
		body []byte
	}
	var changes []change
	gone := map[string]bool{}
	for _, f := range files {
		body, err := s.patched(ctx, f, gone)
		if err != nil {
			return "", err
		}
		changes = append(changes, change{f, body})
		if f.IsDelete || f.IsRename {
			gone[f.OldName] = true
		}
	}
	for _, c := range changes {
		if c.file.OldName != "" && (c.file.IsDelete || c.file.IsRename) {
			if err := s.remove(ctx, c.file.OldName); err != nil {
				return "", err
			}
		}
		if c.file.IsDelete {
			continue
		}
		if err := s.write(ctx, c.file.NewName, c.body, fileMode(c.file)); err != nil {
			return "", err
		}
	}
	return "gitdiff", nil
}

// patched is a file's content after the patch; gone is what earlier sections of the
// patch remove.
func (s site) patched(ctx context.Context, f *gitdiff.File, gone map[string]bool) ([]byte, error) {
	for _, name := range []string{f.OldName, f.NewName} {
		if name != "" && !local(name) {
			return nil, &ApplyError{Words: fmt.Sprintf("gitdiff: %q is not a path within the working tree", name)}
		}
	}
	name := f.OldName
	if f.IsNew {
		name = f.NewName
	}
	var old []byte
	err := fs.ErrNotExist
	if !f.IsNew || !removed(name, gone) {
		old, err = s.read(ctx, path.Join(s.task.Workdir, name), maxDiff)
	}
	switch {
	case f.IsNew && err == nil:
		return nil, &ApplyError{Words: fmt.Sprintf("gitdiff: %s exists already", name)}
	case !f.IsNew && errors.Is(err, fs.ErrNotExist):
		return nil, &ApplyError{Words: fmt.Sprintf("gitdiff: there is no %s", name)}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var body bytes.Buffer
	if err := gitdiff.Apply(&body, bytes.NewReader(old), f); err != nil {
		return nil, &ApplyError{Words: fmt.Sprintf("gitdiff: %s: %v", name, err)}
	}
	return body.Bytes(), nil
}

// removed reports whether name, or a file where name needs a folder, is gone.
func removed(name string, gone map[string]bool) bool {
	for p := name; p != "."; p = path.Dir(p) {
		if gone[p] {
			return true
		}
	}
	return false
}

// fileMode is the mode of a patched file: the new one, or the one on its index line.
func fileMode(f *gitdiff.File) fs.FileMode {
	if f.NewMode != 0 {
		return f.NewMode
	}
	return f.OldMode
}

// write makes one file of the working tree. Modes are those of git: a symlink, or a
// regular file with or without the executable bit.
func (s site) write(ctx context.Context, name string, body []byte, mode fs.FileMode) error {
	if err := s.remove(ctx, name); err != nil {
		return err
	}
	full := path.Join(s.task.Workdir, name)
	switch {
	case mode&fs.ModeSymlink != 0 || mode&0o170000 == 0o120000:
		_, err := s.must(ctx, "make a symlink", sandbox.Command{Timeout: scriptTimeout,
			Shell: "mkdir -p " + quote(path.Dir(full)) + " && ln -s " + quote(string(body)) + " " + quote(full)})
		return err
	case mode&0o111 != 0:
		return s.put(ctx, full, body, 0o755)
	}
	return s.put(ctx, full, body, 0o644)
}

// remove deletes a path of the working tree, and what stands where it needs a folder.
func (s site) remove(ctx context.Context, name string) error {
	var b strings.Builder
	b.WriteString("cd " + quote(s.task.Workdir))
	for i, c := range name {
		if c == '/' {
			lead := quote("./" + name[:i])
			b.WriteString(" && { [ -d " + lead + " ] && [ ! -L " + lead + " ] || rm -f " + lead + "; }")
		}
	}
	b.WriteString(" && rm -rf " + quote("./"+name))
	_, err := s.must(ctx, "remove "+name, sandbox.Command{Shell: b.String(), Timeout: scriptTimeout})
	return err
}

func (s site) restoreOutside(ctx context.Context, paths []string) error {
	return s.outside(func(here string) error {
		if err := s.fetchTree(ctx, baseTar, here+"/tree"); err != nil {
			return err
		}
		for _, p := range paths {
			if err := s.restoreOne(ctx, here+"/tree", p); err != nil {
				return err
			}
		}
		return nil
	})
}

// restoreOne sends the path as it is in tree, or removes it when it is not there.
func (s site) restoreOne(ctx context.Context, tree, name string) error {
	full := filepath.Join(tree, name)
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.remove(ctx, name)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		return s.write(ctx, name, []byte(target), fs.ModeSymlink)
	case !info.Mode().IsRegular():
		return nil // a folder: its files are paths of their own
	}
	body, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	return s.write(ctx, name, body, info.Mode())
}

// local reports whether a path of a diff stays in the working tree and out of .git.
func local(name string) bool {
	if !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return false
	}
	for _, part := range strings.Split(strings.ToLower(name), "/") {
		if part == ".git" {
			return false
		}
	}
	return true
}
