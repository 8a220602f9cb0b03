package image

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is what lies below the folder from on this machine, as it shall lie below at in the image;
// from may be a single file too. Of the modes only whether a file is a program counts. What want
// says no to is left out, with all below it; nil wants everything. Only from itself may be
// a symbolic link that is followed.
func Folder(from, at string, want func(rel string, d fs.DirEntry) bool) ([]File, error) {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return nil, err
	}
	var files []File
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		f := File{Path: filepath.Join(at, rel), Mode: 0o644, Source: path}
		switch {
		case rel != "." && want != nil && !want(rel, d):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			f = Dir(f.Path, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			f = Symlink(f.Path, target)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a %s; an image holds files, folders and symbolic links", path, d.Type())
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			if info.Mode()&0o100 != 0 {
				f.Mode = 0o755
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
