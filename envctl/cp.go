package envctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

func (p *Program) cp() *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files and folders into a sandbox and out of it", ArgsUsage: "SRC DST",
		Description: "One of SRC and DST is ID:PATH; a relative PATH is below the working folder.\n" +
			"As with cp -r: when DST ends in / or is a folder, SRC comes into it under its own name, else DST is\n" +
			"its new name; a / at the end of SRC means nothing, and SRC/. is what is in SRC. - as the local one is\n" +
			"standard input or output. A local file whose name holds a colon is ./NAME.\n\n" +
			"Modes, times (of folders' contents), links, empty folders and any name are kept; owners are not. What\n" +
			"cannot be copied (sockets, devices, unreadable files, coming back also links that lead out of\n" +
			"the folder) is left out, named, and the exit code is 1.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "links", Usage: "coming back, keep links that lead out of the folder"}},
		Action: func(c *cli.Context) error {
			args, err := want(c, 2, 2)
			if err != nil {
				return err
			}
			from, to := parsePlace(args[0]), parsePlace(args[1])
			if (from.id == "") == (to.id == "") {
				return exit.Configf("cp: one of %q and %q must be ID:PATH", args[0], args[1])
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				k := &copying{program: p, from: from, to: to, links: c.Bool("links")}
				var err error
				if to.id != "" {
					k.box = sdk.Sandbox(to.id)
					err = k.up(c.Context)
				} else {
					k.box = sdk.Sandbox(from.id)
					err = k.down(c.Context)
				}
				if err != nil {
					return err
				}
				return k.done()
			})
		},
	}
}

// place is one end of a copy. id is "" on this machine.
type place struct{ id, path string }

// parsePlace is ID:PATH, or a path of this machine: one that begins with / or . or holds
// a / before its first colon is no sandbox's.
func parsePlace(s string) place {
	id, rest, ok := strings.Cut(s, ":")
	if !ok || id == "" || strings.ContainsAny(id, "/.") {
		return place{path: s}
	}
	return place{id, rest}
}

// copying is one cp.
type copying struct {
	program  *Program
	box      *client.Sandbox
	from, to place
	links    bool

	files, folders int
	bytes          int64
	skipped        []skip
}

// skip is what was left out.
type skip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (k *copying) skip(path, reason string) { k.skipped = append(k.skipped, skip{path, reason}) }

// done says what was copied and what was not.
func (k *copying) done() error {
	for _, s := range k.skipped {
		if !k.program.json() {
			fmt.Fprintf(k.program.Err, "envctl: left out %s: %s\n", oneLine(s.Path), oneLine(s.Reason))
		}
	}
	if k.program.json() && k.to.path != "-" {
		v := struct {
			Files   int    `json:"files"`
			Folders int    `json:"folders"`
			Bytes   int64  `json:"bytes"`
			Skipped []skip `json:"skipped"`
		}{k.files, k.folders, k.bytes, listed(k.skipped)}
		if err := k.program.print(v, nil); err != nil {
			return err
		}
	}
	if len(k.skipped) > 0 {
		return status(1)
	}
	return nil
}

// What a path in a sandbox is.
const (
	absent = iota
	isFile
	isFolder
)

// remoteKind asks what is at a path.
func (k *copying) remoteKind(ctx context.Context, at string) (int, error) {
	_, err := k.box.List(ctx, folderPath(at))
	var failure *client.Failure
	switch {
	case err == nil:
		return isFolder, nil
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case errors.As(err, &failure) && failure.Status == 400: // it is there, and no folder
		return isFile, nil
	}
	return absent, err
}

// folderPath is "" as a path that the API takes.
func folderPath(at string) string {
	if at == "" {
		return "."
	}
	return at
}

// contents reports whether a source means what is in it, and the source without that.
func contents(src string) (string, bool) {
	trimmed := strings.TrimRight(src, "/")
	switch {
	case trimmed == "." || trimmed == "" && src == "":
		return ".", true
	case trimmed == "":
		return "/", true
	case strings.HasSuffix(trimmed, "/."):
		return folderOr(strings.TrimSuffix(trimmed, "/."), "/"), true
	case trimmed == "..":
		return "..", true
	}
	return trimmed, false
}

func folderOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// target is where SRC called name comes to be, given what DST is now.
func target(dst, name string, whole bool, kind int, join func(...string) string) string {
	switch {
	case whole: // what is in SRC
		return dst
	case strings.HasSuffix(dst, "/") || kind == isFolder || dst == "":
		return join(folderOr(dst, "."), name)
	}
	return dst
}

// up copies from this machine into the sandbox.
func (k *copying) up(ctx context.Context) error {
	if k.from.path == "-" {
		if k.to.path == "" || strings.HasSuffix(k.to.path, "/") {
			return exit.Configf("cp: standard input has no name: give the file's, such as %s:%sNAME", k.to.id, k.to.path)
		}
		return k.box.Put(ctx, k.to.path, k.program.In, -1, 0o644)
	}
	src, whole := contents(k.from.path)
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	if whole && !info.IsDir() {
		return &fs.PathError{Op: "copy", Path: k.from.path, Err: errors.New("not a folder")}
	}
	kind, err := k.remoteKind(ctx, k.to.path)
	if err != nil {
		return err
	}
	at := target(k.to.path, filepath.Base(src), whole, kind, path.Join)
	if info.IsDir() {
		return k.upFolder(ctx, src, folderPath(at))
	}
	if !info.Mode().IsRegular() {
		k.skip(src, "is not a file, folder or link but "+info.Mode().Type().String())
		return nil
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	k.files, k.bytes = 1, info.Size()
	return k.box.Put(ctx, at, f, info.Size(), info.Mode())
}

// down copies from the sandbox to this machine.
func (k *copying) down(ctx context.Context) error {
	src, whole := contents(k.from.path)
	kind, err := k.remoteKind(ctx, src)
	switch {
	case err != nil:
		return err
	case kind == absent:
		return &fs.PathError{Op: "copy", Path: k.from.id + ":" + src, Err: fs.ErrNotExist}
	case kind == isFile && whole:
		return &fs.PathError{Op: "copy", Path: k.from.id + ":" + k.from.path, Err: errors.New("not a folder")}
	case k.to.path == "-" && kind == isFolder:
		return exit.Configf("cp: %s is a folder, and - is one file", k.from.path)
	case k.to.path == "-":
		r, err := k.box.Get(ctx, src)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(k.program.Out, r)
		return err
	}
	local := absent
	if info, err := os.Stat(k.to.path); err == nil && info.IsDir() {
		local = isFolder
	} else if err == nil {
		local = isFile
	}
	at := target(k.to.path, path.Base(src), whole, local, filepath.Join)
	if kind == isFolder {
		return k.downFolder(ctx, src, at)
	}
	return k.downFile(ctx, src, at)
}
