package image

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// finish gives folders their modes and times, the deepest first.
func (u *unpacker) finish() error {
	names := make([]string, 0, len(u.dirs))
	for name := range u.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Reverse(names)
	for _, name := range names {
		meta := u.dirs[name]
		if err := u.finishDir(name, meta); err != nil {
			return fmt.Errorf("folder %q: %w", name, err)
		}
	}
	return nil
}

func (u *unpacker) finishDir(name string, meta dirMeta) error {
	at, err := u.root.existing(path.Dir(name))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // a later layer took it away
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := openDirAt(at, path.Base(name))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mode := unixMode(meta.mode)
	if !u.owners {
		mode |= 0o700 // or its owner, this process's user, could not remove it again
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return setTime(fd, ".", meta.modified)
}

func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
}
