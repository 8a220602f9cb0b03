package imports

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// RepoKind is the form in which a row names its repository.
type RepoKind string

// The forms.
const (
	Bundle     RepoKind = "repo_bundle"      // a git bundle
	Dir        RepoKind = "repo_dir"         // a folder that git knows: a working tree or a bare repository
	FastImport RepoKind = "repo_fast_import" // text for git fast-import
)

// RepoRef is the repository of a row, as the row names it.
type RepoRef struct {
	Kind RepoKind
	Path string // relative to the file that names it, or absolute
}

// repo is the one repository that the row names, or nil.
func (r *reader) repo() *RepoRef {
	var ref *RepoRef
	for _, c := range []column{colBundle, colDir, colFastImport} {
		p := r.text(c)
		switch {
		case p == "":
		case ref != nil:
			r.fail(c[0], "the row has %s as well; keep one of them", ref.Kind)
		case strings.ContainsRune(p, 0):
			r.fail(c[0], "%s is no path", shown(p))
		default:
			ref = &RepoRef{RepoKind(c[0]), p}
		}
	}
	return ref
}

// Locate is the repository's path on this machine. Unless outside is set it must lie
// in the folder of the file that names it, links followed, so that a task file from
// somewhere else cannot reach for what else is on the machine.
func (f RepoRef) Locate(file string, outside bool) (string, *Problem) {
	bad := func(format string, a ...any) (string, *Problem) {
		return "", problemf(string(f.Kind), format, a...)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return bad("%v", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return bad("%v", err)
	}
	p := filepath.FromSlash(f.Path)
	if !filepath.IsAbs(p) {
		p = filepath.Join(folder, p)
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return bad("%s: %v (paths are relative to the file)", shown(f.Path), reason(err))
	}
	if rel, err := filepath.Rel(folder, real); !outside && (err != nil || !filepath.IsLocal(rel)) {
		return bad("%s lies outside the file's folder; move it there, or give --allow-outside if you trust the file", shown(f.Path))
	}
	info, err := os.Stat(real)
	if err != nil {
		return bad("%s: %v", shown(f.Path), reason(err))
	}
	if isDir := f.Kind == Dir; info.IsDir() != isDir || !isDir && !info.Mode().IsRegular() {
		return bad("%s is %s", shown(f.Path), map[bool]string{true: "no folder", false: "no file"}[isDir])
	}
	return real, nil
}

// reason is a file error without the path that the message has already.
func reason(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}

func (f RepoRef) String() string { return fmt.Sprintf("%s %s", f.Kind, f.Path) }
