package agent

import (
	"archive/tar"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func (u *unpacking) symlink(name string, h *tar.Header) error {
	if !u.anyLinks && u.leads(name, h.Linkname) {
		return badRequest("entry %q: the link to %q may lead out of the folder; ?links=any lets it", h.Name, h.Linkname)
	}
	_, err := u.fresh(name, func() (*os.File, error) { return nil, u.root.Symlink(h.Linkname, name) })
	if err == nil {
		u.report.Links++
		err = u.linkTime(name, h.ModTime)
	}
	return err
}

// leads reports whether a link could lead out of the folder. Its text is enough to tell
// when it goes up before it goes down, from a place that no other link leads to.
func (u *unpacking) leads(name, target string) bool {
	joined := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") {
		return true
	}
	down := false
	for _, part := range strings.Split(target, "/") {
		if part == ".." && down {
			return true
		}
		down = down || part != ".." && part != "." && part != ""
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := u.root.Lstat(dir); err == nil && info.Mode().Type() == fs.ModeSymlink {
			return true
		}
	}
	return false
}

func (u *unpacking) linkTime(name string, modified time.Time) error {
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	at := unix.NsecToTimespec(modified.UnixNano())
	return unix.UtimesNanoAt(int(dir.Fd()), path.Base(name), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// link makes a hard link to an entry that came before. A symbolic link under another name
// could lead elsewhere.
func (u *unpacking) link(name string, h *tar.Header) error {
	target, err := entryName(h.Linkname)
	if err != nil {
		return err
	}
	info, err := u.root.Lstat(target)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && !u.anyLinks {
		return badRequest("entry %q: the hard link's target %q is no file", h.Name, h.Linkname)
	}
	_, err = u.fresh(name, func() (*os.File, error) { return nil, u.root.Link(target, name) })
	if err == nil {
		u.report.Links++
	}
	return err
}
