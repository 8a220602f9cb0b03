package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// WriteArchive makes path a docker-archive that holds img under tag and nothing else.
// One that holds it already stays as it is, and wrote is false.
func WriteArchive(path, tag string, img v1.Image) (wrote bool, err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return false, err
	}
	id, err := img.ConfigName()
	if err != nil {
		return false, err
	}
	// An archive is put in place whole, so its manifest speaks for all of it.
	m, err := tarball.LoadManifest(opener(path))
	if err == nil && len(m) == 1 && m[0].Config == id.String() && slices.Equal(m[0].RepoTags, []string{ref.String()}) {
		return false, nil
	}
	return true, WriteWhole(path, func(f *os.File) error { return tarball.Write(ref, img, f) })
}

// ReadArchive is the image in a docker-archive that WriteArchive made.
func ReadArchive(path string) (v1.Image, error) {
	img, err := tarball.Image(opener(path), nil)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", path, err)
	}
	return img, nil
}

// WriteWhole makes a file of what write writes, at once: nobody ever sees a part of it.
func WriteWhole(path string, write func(*os.File) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func opener(path string) tarball.Opener {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}
