package image

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"orchard/internal/whole"
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := whole.Write(path, 0o644, func(f *os.File) error { return tarball.Write(ref, img, f) }); err != nil {
		return true, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}

// ReadArchive is the image in a docker-archive that WriteArchive made.
func ReadArchive(path string) (v1.Image, error) {
	img, err := tarball.Image(opener(path), nil)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", path, err)
	}
	return img, nil
}

func opener(path string) tarball.Opener {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}
