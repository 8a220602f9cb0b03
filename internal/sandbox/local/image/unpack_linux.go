package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// Whiteouts, as the OCI image specification names them.
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// maxID is the largest owner that a sandbox knows; larger ones are nobody's.
const (
	maxID  = 65535
	nobody = 65534
)

// unpacker lays layers over each other in one folder.
type unpacker struct {
	root   *rooted
	owners bool
	// dirs are the folders' final modes and times: a folder that is read-only, or that
	// later layers write into, gets them at the end.
	dirs map[string]dirMeta
}

type dirMeta struct {
	mode     fs.FileMode
	modified time.Time
}

func newUnpacker(dir string, owners bool) (*unpacker, error) {
	root, err := openRooted(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{root: root, owners: owners, dirs: map[string]dirMeta{}}, nil
}

func (u *unpacker) close() { u.root.close() }

// layer unpacks l over what is there and checks that its content is what want says.
func (u *unpacker) layer(ctx context.Context, l v1.Layer, want v1.Hash) error {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	stream := io.TeeReader(r, sum)
	made := map[string]bool{}
	for t := tar.NewReader(stream); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return streamError(err)
		}
		if err := u.entry(h, t, made); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, entryError(err))
		}
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // what pads the archive
		return streamError(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return fmt.Errorf("%w: the content is sha256:%s, the image says %s", errBroken, got, want)
	}
	return nil
}

// streamError says whether the bytes are wrong or only did not come.
func streamError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

// entryError marks what no retry would change: the entry contradicts what is there.
func entryError(err error) error {
	for _, e := range []unix.Errno{
		unix.ENOTDIR, unix.ELOOP, unix.EEXIST, unix.ENOENT, unix.ENAMETOOLONG, unix.EINVAL, unix.EISDIR, unix.EPERM,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	return err
}

// entry unpacks one entry; made are the paths of this layer, which its own whiteouts spare.
func (u *unpacker) entry(h *tar.Header, content io.Reader, made map[string]bool) error {
	// Cleaning from the root on takes ".." away.
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if name == "" {
		u.dirs["."] = dirMeta{h.FileInfo().Mode(), h.ModTime}
		return nil
	}
	parent, base := path.Split(name)
	parent = path.Clean(parent)
	if strings.HasPrefix(base, whiteoutPrefix) {
		return u.whiteout(parent, base, made)
	}
	for p := name; p != "."; p = path.Dir(p) {
		made[p] = true
	}
	at, err := u.root.dir(parent)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if h.Typeflag == tar.TypeDir {
		u.dirs[name] = dirMeta{h.FileInfo().Mode(), h.ModTime}
		if err := makeDir(at, base); err != nil {
			return err
		}
		return u.own(at, base, h)
	}
	if err := removeAt(at, base); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if err := writeFile(at, base, content); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := unix.Symlinkat(h.Linkname, at, base); err != nil {
			return err
		}
		return u.own(at, base, h)
	case tar.TypeLink:
		return u.hardLink(h.Linkname, at, base)
	case tar.TypeFifo:
		if err := unix.Mknodat(at, base, unix.S_IFIFO|0o600, 0); err != nil {
			return err
		}
	default: // devices: the sandbox has its own /dev
		return nil
	}
	// The owner first: changing it clears the set-user-id bits.
	if err := u.own(at, base, h); err != nil {
		return err
	}
	if err := unix.Fchmodat(at, base, uint32(h.Mode)&0o7777, 0); err != nil {
		return err
	}
	return setTime(at, base, h.ModTime)
}

// own gives an entry, not what it points to, to its owner.
func (u *unpacker) own(at int, base string, h *tar.Header) error {
	if !u.owners {
		return nil
	}
	id := func(n int) int {
		if n < 0 || n > maxID {
			return nobody
		}
		return n
	}
	return unix.Fchownat(at, base, id(h.Uid), id(h.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

func (u *unpacker) hardLink(target string, at int, base string) error {
	dir, file := path.Split(path.Clean("/" + target))
	from, err := u.root.existing(dir)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	defer unix.Close(from)
	if err := unix.Linkat(from, file, at, base, 0); err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	return nil
}

// whiteout removes what lower layers have at a name, or all that they have in a folder.
func (u *unpacker) whiteout(parent, base string, made map[string]bool) error {
	if base != whiteoutOpaque && strings.HasPrefix(base, whiteoutMeta) {
		return nil // another union file system's own notes
	}
	at, err := u.root.existing(parent)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if base == whiteoutOpaque {
		return u.clear(at, parent, made)
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "." || hidden == ".." || hidden == "" {
		return fmt.Errorf("%w: it hides %q", errBroken, hidden)
	}
	if made[path.Join(parent, hidden)] {
		return nil
	}
	return removeAt(at, hidden)
}

// clear removes from a folder all but what this layer has put there.
func (u *unpacker) clear(at int, dir string, made map[string]bool) error {
	names, err := readNames(at)
	if err != nil {
		return err
	}
	for _, base := range names {
		name := path.Join(dir, base)
		if !made[name] {
			if err := removeAt(at, base); err != nil {
				return err
			}
			continue
		}
		sub, err := openDirAt(at, base)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // a file of this layer
		}
		if err != nil {
			return err
		}
		err = u.clear(sub, name, made)
		unix.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}
