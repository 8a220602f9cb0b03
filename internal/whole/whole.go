// Package whole puts files in place at once: nobody ever sees a part of one, and of a write
// that fails nothing is left.
package whole

import (
	"errors"
	"os"
	"path/filepath"
)

// Write makes path a file of what write writes, with mode perm, in a folder that is there.
func Write(path string, perm os.FileMode, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // path's own name may be as long as names can be
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(perm), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
	}
	return err
}

// WriteBytes is Write of b.
func WriteBytes(path string, perm os.FileMode, b []byte) error {
	return Write(path, perm, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
