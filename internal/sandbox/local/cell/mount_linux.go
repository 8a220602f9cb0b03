package cell

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const nosuid = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// ReadOnly are the attributes of every tree that a sandbox shares with the machine.
const ReadOnly = nosuid | unix.MOUNT_ATTR_RDONLY

// OpenTree detaches a copy of the mounts at path, with what is mounted below, and adds
// attributes. With usernsFD at least 0, owners are seen as that user namespace counts
// them: file owner 0 is its root. That takes privilege over the file system's own
// namespace, and holds for path's own mount only.
func OpenTree(path string, attributes uint64, usernsFD int) (int, error) {
	flags, recursive := uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC), uint(unix.AT_RECURSIVE)
	attr := &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if usernsFD >= 0 {
		recursive = 0
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(usernsFD)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, flags|recursive)
	if err != nil {
		return -1, fmt.Errorf("open tree %s: %w", path, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursive, attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set the attributes of tree %s: %w", path, err)
	}
	return fd, nil
}

// newMount is a file system of kind with options in pairs, attached nowhere. An option
// with an empty value is a flag.
func newMount(kind string, attributes int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for i := 0; i+1 < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, fmt.Errorf("option %s of %s: %w", options[i], kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make file system %s: %w%s", kind, err, kernelSays(fs))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w%s", kind, err, kernelSays(fs))
	}
	return fd, nil
}

// kernelSays is the kernel's own words on a mount that it refused, or "".
func kernelSays(fs int) string {
	var text string
	buf := make([]byte, 512)
	for range 4 {
		n, err := unix.Read(fs, buf)
		if err != nil || n <= 0 {
			break
		}
		text += " (" + string(buf[:n]) + ")"
	}
	return text
}

func moveMount(fd int, target string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return fmt.Errorf("attach a mount at %s: %w", target, err)
	}
	return nil
}

// mountNew makes a file system and attaches it.
func mountNew(target, kind string, attributes int, options ...string) error {
	fd, err := newMount(kind, attributes, options...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return attachDir(fd, target)
}
