package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// staging is where trees lie until the new root stands. It exists on every machine and
// nothing below it is needed once the new /proc is opened.
const staging = "/proc"

// build makes the new root and enters it. Sources are opened first, then the machine's
// own files are left behind, and only then is anything of the sandbox looked at.
func (c *Config) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := c.openTrees(); err != nil {
		return err
	}
	devices, err := openDevices()
	if err != nil {
		return err
	}
	// The kernel lets a new /proc be opened only while the old one is in sight.
	proc, err := newMount("proc", nosuid|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	overlays, err := c.mountOverlays()
	if err != nil {
		return err
	}
	if err := enter(overlays[0]); err != nil {
		return err
	}
	if err := c.furnish(overlays[1:], devices, proc); err != nil {
		return blame(err)
	}
	return nil
}

// furnish attaches everything in the new root.
func (c *Config) furnish(overlays, devices []int, proc int) error {
	for _, dir := range []string{"/dev", "/proc", "/sys", filepath.Dir(c.Agent.Target)} {
		if err := ownFolder(dir); err != nil {
			return err
		}
	}
	for i, o := range c.Overlays[1:] {
		if err := attachDir(overlays[i], o.Target); err != nil {
			return err
		}
	}
	if err := populateDev(devices, c.SharedMemory); err != nil {
		return err
	}
	if err := mountProc(proc); err != nil {
		return err
	}
	for _, m := range append(c.Mounts, c.Agent) {
		if err := m.attach(); err != nil {
			return err
		}
	}
	return c.fill()
}

// ownFolder makes dir a folder when the image has something else there, a link above all.
func ownFolder(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// blame marks an error that comes of what lies in the root.
func blame(err error) error {
	for _, e := range []unix.Errno{unix.ENOTDIR, unix.ELOOP, unix.EEXIST, unix.ENOENT, unix.EACCES, unix.EPERM, unix.EROFS, unix.EISDIR} {
		if errors.Is(err, e) {
			return fmt.Errorf("%s%w", Refusal, err)
		}
	}
	return err
}

// openTrees gives every tree that the service could not detach its descriptor.
func (c *Config) openTrees() error {
	if err := c.Box.open(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	for i := range c.Overlays {
		if err := c.Overlays[i].Lower.open(ReadOnly); err != nil {
			return err
		}
	}
	for i := range c.Mounts {
		if err := c.Mounts[i].open(ReadOnly); err != nil {
			return err
		}
	}
	return c.Agent.open(ReadOnly)
}

func (t *Tree) open(attributes uint64) error {
	if t.Sent > 0 {
		return nil
	}
	fd, err := OpenTree(t.Source, attributes, -1)
	t.fd = fd
	return err
}

// mountOverlays lays every overlay over its lower tree; none is attached anywhere yet.
func (c *Config) mountOverlays() ([]int, error) {
	if err := unix.Mount("staging", staging, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return nil, fmt.Errorf("mount the staging folder: %w", err)
	}
	box := filepath.Join(staging, "box")
	if err := attachDir(c.Box.fd, box); err != nil {
		return nil, err
	}
	var fds []int
	for i, o := range c.Overlays {
		lower := filepath.Join(staging, "lower"+strconv.Itoa(i))
		if err := attachDir(o.Lower.fd, lower); err != nil {
			return nil, err
		}
		fd, err := newMount("overlay", nosuid,
			"lowerdir", lower, "upperdir", filepath.Join(box, o.Upper), "workdir", filepath.Join(box, o.Work), "userxattr", "")
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", o.Target, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// enter makes the tree of fd the root and leaves the machine's own behind.
func enter(fd int) error {
	root := filepath.Join(staging, "root")
	if err := attachDir(fd, root); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot into the new root: %w", err)
	}
	// The old root now lies over the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

// attach shows m at its target, which is a folder or a file as its tree is.
func (m Mount) attach() error {
	var st unix.Stat_t
	if err := unix.Fstat(m.fd, &st); err != nil {
		return fmt.Errorf("look at the tree for %s: %w", m.Target, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return attachDir(m.fd, m.Target)
	}
	return attachFile(m.fd, m.Target)
}

func attachDir(fd int, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	return moveMount(fd, target)
}

func attachFile(fd int, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	f, err := os.OpenFile(target, os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	f.Close()
	return moveMount(fd, target)
}

// fill writes the small files and the working folder.
func (c *Config) fill() error {
	for _, f := range c.Files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		// A link that the image left there is replaced, not written through.
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(f.Path, []byte(f.Data), fs.FileMode(f.Mode)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/tmp", 0o777); err != nil {
		return err
	}
	if err := os.Chmod("/tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	switch err := os.Mkdir(c.Workdir, 0o755); {
	case errors.Is(err, fs.ErrExist):
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(c.Workdir, 0o755); err != nil {
			return fmt.Errorf("make the working folder: %w", err)
		}
		fallthrough
	case err == nil:
		if err := os.Chown(c.Workdir, c.UID, c.GID); err != nil {
			return fmt.Errorf("give the working folder to its user: %w", err)
		}
	default:
		return fmt.Errorf("make the working folder: %w", err)
	}
	if err := os.Chdir(c.Workdir); err != nil {
		return fmt.Errorf("enter the working folder: %w", err)
	}
	return nil
}
