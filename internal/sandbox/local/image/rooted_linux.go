package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// rooted is a folder that stands for "/": every path and every symbolic link on it is
// resolved by the kernel inside it.
type rooted struct{ fd int }

func openRooted(dir string) (*rooted, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return &rooted{fd}, nil
}

func (r *rooted) close() { unix.Close(r.fd) }

// existing opens a folder; the caller closes it.
func (r *rooted) existing(dir string) (int, error) {
	return unix.Openat2(r.fd, dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// file opens a file for reading, through links inside.
func (r *rooted) file(name string) (*os.File, error) {
	fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// dir opens a folder and makes it and its parents when they are not there.
func (r *rooted) dir(dir string) (int, error) {
	fd, err := r.existing(dir)
	if !errors.Is(err, unix.ENOENT) || dir == "." || dir == "/" {
		return fd, err
	}
	parent, err := r.dir(path.Dir(dir))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(dir), 0o755); err != nil {
		// A link to a folder that is not there is no folder to unpack into.
		return -1, fmt.Errorf("make folder %s: %w", dir, err)
	}
	return openDirAt(parent, path.Base(dir))
}

// openDirAt opens a folder that is not a link.
func openDirAt(at int, base string) (int, error) {
	return unix.Openat(at, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// makeDir makes a folder; anything else of that name makes way for it.
func makeDir(at int, base string) error {
	err := unix.Mkdirat(at, base, 0o755)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := openDirAt(at, base)
	if err == nil {
		return unix.Close(fd)
	}
	if err := removeAt(at, base); err != nil {
		return err
	}
	return unix.Mkdirat(at, base, 0o755)
}

// removeAt removes a name and everything below it, following no link.
func removeAt(at int, base string) error {
	err := unix.Unlinkat(at, base, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", at))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(base)
}

func writeFile(at int, base string, content io.Reader) error {
	fd, err := unix.Openat(at, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	_, err = io.Copy(f, content)
	if err != nil {
		err = streamError(err)
	}
	return errors.Join(err, f.Close())
}

func readNames(at int) ([]string, error) {
	d, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", at))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func setTime(at int, base string, t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(at, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
