// Package debian takes programs out of the Debian that this machine runs, each with the
// libraries that it is linked against, as files for an image. It takes neither what a package
// needs besides, nor its configuration.
package debian

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"orchard/images/image"
	"orchard/images/sbom"
)

// Set is files of an image and the packages that they came from.
type Set struct {
	Files    []image.File
	Packages []sbom.Package
}

// merged is how Debian has had its folders since /usr was merged.
var merged = []image.File{image.Symlink("/bin", "usr/bin"), image.Symlink("/sbin", "usr/sbin"), image.Symlink("/lib", "usr/lib"), image.Symlink("/lib64", "usr/lib64")}

// Packages is every program of the packages named, which must be installed.
func Packages(ctx context.Context, names ...string) (Set, error) {
	var programs []string
	for _, name := range names {
		out, err := dpkg(ctx, "-L", name)
		if err != nil {
			return Set{}, err
		}
		for line := range strings.Lines(string(out)) {
			p := inUsr(strings.TrimSpace(line))
			switch path.Dir(p) {
			case "/usr/bin", "/usr/sbin":
				programs = append(programs, p)
			}
		}
	}
	set, err := Programs(ctx, programs...)
	if err == nil && slices.Contains(names, "git") { // git init copies its templates
		const templates = "/usr/share/git-core/templates"
		var files []image.File
		files, err = image.Folder(templates, templates, nil)
		set.Files = append(set.Files, files...)
	}
	return set, err
}

// Programs is the programs at the paths given; a path that is a symbolic link stays one.
func Programs(ctx context.Context, paths ...string) (Set, error) {
	t := taker{files: map[string]image.File{}}
	for _, p := range paths {
		if err := t.take(inUsr(p)); err != nil {
			return Set{}, fmt.Errorf("take %s from this machine: %w", p, err)
		}
	}
	set := Set{Files: slices.Clone(merged)}
	var from []string
	for _, f := range t.files {
		set.Files = append(set.Files, f)
		from = append(from, f.Path, f.Source)
	}
	// The same file may be reached over several names.
	slices.SortFunc(set.Files, func(a, b image.File) int { return strings.Compare(a.Path, b.Path) })
	var err error
	set.Packages, err = owners(ctx, from)
	return set, err
}

// taker collects files by their path in the image.
type taker struct{ files map[string]image.File }

func (t *taker) take(p string) error {
	if _, there := t.files[p]; there {
		return nil
	}
	info, err := os.Lstat(p)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		t.files[p] = image.Symlink(p, target)
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(p), target)
		}
		return t.take(inUsr(target))
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is a %s", info.Mode().Type())
	}
	t.files[p] = image.File{Path: p, Mode: 0o755, Source: p}
	return t.takeLibraries(p)
}

// takeLibraries takes what the dynamic linker will look for, and the linker.
func (t *taker) takeLibraries(p string) error {
	f, err := elf.Open(p)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil // a script
	}
	if err != nil {
		return err
	}
	defer f.Close()
	needs, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		raw, err := io.ReadAll(prog.Open())
		if err != nil {
			return err
		}
		needs = append(needs, strings.TrimRight(string(raw), "\x00"))
	}
	for _, need := range needs {
		if err := t.takeLibrary(need); err != nil {
			return fmt.Errorf("%s needs a library: %w", p, err)
		}
	}
	return nil
}

// takeLibrary takes a library, by its name or its path, as a file of that name.
func (t *taker) takeLibrary(name string) error {
	at := inUsr(name)
	if !path.IsAbs(name) {
		at = ""
		for _, dir := range libraryDirs() {
			if _, err := os.Stat(path.Join(dir, name)); err == nil {
				at = path.Join(dir, name)
				break
			}
		}
		if at == "" {
			return fmt.Errorf("%s is not in %s", name, strings.Join(libraryDirs(), " or "))
		}
	}
	if _, there := t.files[at]; there {
		return nil
	}
	source, err := filepath.EvalSymlinks(at)
	if err != nil {
		return err
	}
	t.files[at] = image.File{Path: at, Mode: 0o755, Source: source}
	return t.takeLibraries(source)
}

// libraryDirs is where Debian's dynamic linker looks without a cache.
func libraryDirs() []string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return []string{"/usr/lib/" + machine + "-linux-gnu", "/usr/lib"}
}

// inUsr is where a path lies since /usr was merged.
func inUsr(p string) string {
	p = path.Clean(p)
	for _, link := range merged {
		if strings.HasPrefix(p, link.Path+"/") {
			return "/usr" + p
		}
	}
	return p
}

func dpkg(ctx context.Context, args ...string) ([]byte, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "dpkg-query", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "LC_ALL=C"), &errs
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("dpkg-query %s: %w: %s", strings.Join(args[:min(2, len(args))], " "), err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}
