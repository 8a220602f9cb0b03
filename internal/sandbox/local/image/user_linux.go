package image

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// IDs are the numbers of the image's user and group, by its own /etc/passwd and
// /etc/group; an image that names no user means root.
func (i *Image) IDs() (uid, gid int, err error) {
	if i.User == "" {
		return 0, 0, nil
	}
	user, group, hasGroup := strings.Cut(i.User, ":")
	line, err := i.lookup("etc/passwd", user)
	switch {
	case err != nil:
		return 0, 0, err
	case len(line) >= 4:
		if uid, err = strconv.Atoi(line[2]); err == nil {
			gid, err = strconv.Atoi(line[3])
		}
	default:
		uid, err = strconv.Atoi(user)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the image has no user %q", user)
	}
	if hasGroup {
		line, err := i.lookup("etc/group", group)
		if err != nil {
			return 0, 0, err
		}
		number := group
		if len(line) >= 3 {
			number = line[2]
		}
		if gid, err = strconv.Atoi(number); err != nil {
			return 0, 0, fmt.Errorf("the image has no group %q", group)
		}
	}
	if uid < 0 || uid > maxID || gid < 0 || gid > maxID {
		return 0, 0, fmt.Errorf("the image's user %q is beyond %d", i.User, maxID)
	}
	return uid, gid, nil
}

// lookup is the line of a file such as /etc/passwd whose first or third field is key, or
// none.
func (i *Image) lookup(file, key string) ([]string, error) {
	root, err := openRooted(i.Root)
	if err != nil {
		return nil, err
	}
	defer root.close()
	f, err := root.file(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of the image: %w", file, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= 3 && (fields[0] == key || fields[2] == key) {
			return fields, nil
		}
	}
	return nil, lines.Err()
}
