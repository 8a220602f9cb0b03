package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
)

// blobName is what a file of an OCI layout is called; others are not looked at.
var blobName = regexp.MustCompile(`^(oci-layout|index\.json|blobs/[a-z0-9+._-]+/[a-f0-9]+)$`)

// archiveKind is prefixArchive for a tar of an OCI layout, prefixDocker for one that has
// a manifest.json. One that is both is read as docker's: it needs no temporary folder.
func archiveKind(file string) (string, error) {
	kind := ""
	err := eachEntry(file, func(h *tar.Header, _ io.Reader) error {
		switch path.Clean(h.Name) {
		case "manifest.json":
			kind = prefixDocker
			return io.EOF
		case "oci-layout":
			kind = prefixArchive
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if kind == "" {
		return "", errors.New("it has neither a manifest.json nor an oci-layout")
	}
	return kind, nil
}

// extractLayout copies the files of a layout out of its archive.
func extractLayout(file, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachEntry(file, func(h *tar.Header, r io.Reader) error {
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !blobName.MatchString(name) {
			return nil
		}
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	})
}

// eachEntry calls f for the entries of a tar until one returns io.EOF.
func eachEntry(file string, f func(*tar.Header, io.Reader) error) error {
	in, err := openArchive(file)
	if err != nil {
		return err
	}
	defer in.Close()
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		switch err := f(h, t); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
