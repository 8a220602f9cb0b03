// Package patch applies a unified diff as "git apply" does, for a sandbox whose image
// has no git: same exit codes, same words for the usual failures, offsets allowed,
// no fuzz. Nothing is written unless the whole diff applies. It never leaves the tree
// it was given and it does not make symbolic links.
package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Tree is the folder that a diff is applied in. Paths are relative, with slashes.
type Tree interface {
	// Read is a file and its permission bits; fs.ErrNotExist when there is none.
	Read(ctx context.Context, name string) ([]byte, fs.FileMode, error)
	Write(ctx context.Context, name string, data []byte, mode fs.FileMode) error
	Remove(ctx context.Context, name string) error
}

// Outcome is what git apply would have said.
type Outcome struct {
	ExitCode int // 0 applied, 1 does not apply, 128 no diff or a broken one
	Stderr   string
}

const noPatch = "error: No valid patches in input (allow with \"--allow-empty\")\n"

// The file types in a diff's modes, as git writes them.
const (
	gitType    = 0o170000
	gitSymlink = 0o120000
)

// change is a file to write or, when data is nil, to remove.
type change struct {
	name string
	data []byte
	mode fs.FileMode
}

// Apply applies diff in t. An error is the tree's: what was written by then is not known.
func Apply(ctx context.Context, t Tree, diff string) (Outcome, error) {
	files, _, err := gitdiff.Parse(strings.NewReader(strip(diff)))
	if err != nil {
		return Outcome{128, fmt.Sprintf("error: corrupt patch: %v\n", err)}, nil
	}
	if len(files) == 0 {
		return Outcome{128, noPatch}, nil
	}
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name != "" && !inside(name) {
				return Outcome{128, fmt.Sprintf("error: invalid path '%s'\n", name)}, nil
			}
		}
		if f.NewMode&gitType == gitSymlink || f.OldMode&gitType == gitSymlink {
			return Outcome{128, fmt.Sprintf("error: %s: a symbolic link cannot be patched without git in the image\n", nameOf(f))}, nil
		}
	}
	p := &plan{tree: t, done: map[string]*change{}}
	var said strings.Builder
	for _, f := range files {
		refusal, err := p.add(ctx, f)
		if err != nil {
			return Outcome{}, err
		}
		said.WriteString(refusal)
	}
	if said.Len() > 0 {
		return Outcome{1, said.String()}, nil
	}
	return Outcome{}, p.write(ctx)
}

// inside reports whether a diff may touch name: git refuses the same ones.
func inside(name string) bool {
	if path.IsAbs(name) {
		return false
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

func nameOf(f *gitdiff.File) string {
	if f.NewName != "" {
		return f.NewName
	}
	return f.OldName
}

// plan is what a diff will do to a tree: a diff may touch a file more than once.
type plan struct {
	tree  Tree
	order []string
	done  map[string]*change
}

func (p *plan) read(ctx context.Context, name string) ([]byte, fs.FileMode, error) {
	if c, ok := p.done[name]; ok {
		if c.data == nil {
			return nil, 0, fs.ErrNotExist
		}
		return c.data, c.mode, nil
	}
	return p.tree.Read(ctx, name)
}

func (p *plan) set(c change) {
	if _, ok := p.done[c.name]; !ok {
		p.order = append(p.order, c.name)
	}
	p.done[c.name] = &c
}

// add plans one file of the diff; the text is git's refusal, "" for none.
func (p *plan) add(ctx context.Context, f *gitdiff.File) (string, error) {
	var old []byte
	mode := fs.FileMode(0o644)
	if f.IsNew {
		switch _, _, err := p.read(ctx, f.NewName); {
		case err == nil:
			return fmt.Sprintf("error: %s: already exists in working directory\n", f.NewName), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	} else {
		var err error
		old, mode, err = p.read(ctx, f.OldName)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("error: %s: No such file or directory\n", f.OldName), nil
		} else if err != nil {
			return "", err
		}
	}
	if line, ok := relocate(old, f.TextFragments); !ok {
		return fmt.Sprintf("error: patch failed: %s:%d\nerror: %s: patch does not apply\n", nameOf(f), line, nameOf(f)), nil
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(old), f); err != nil {
		return fmt.Sprintf("error: %s: patch does not apply\n", nameOf(f)), nil
	}
	if f.NewMode != 0 {
		mode = f.NewMode & 0o777
	}
	if f.IsDelete || f.IsRename {
		p.set(change{name: f.OldName})
	}
	if !f.IsDelete {
		p.set(change{f.NewName, append([]byte{}, out.Bytes()...), mode})
	}
	return "", nil
}

func (p *plan) write(ctx context.Context) error {
	for _, name := range p.order {
		c := p.done[name]
		var err error
		if c.data == nil {
			err = p.tree.Remove(ctx, name)
		} else {
			err = p.tree.Write(ctx, name, c.data, c.mode)
		}
		if err != nil {
			return fmt.Errorf("apply patch to %s: %w", name, err)
		}
	}
	return nil
}
