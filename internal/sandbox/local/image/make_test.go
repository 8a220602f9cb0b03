//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is one of a layer; a name that ends in "/" is a folder.
type entry struct {
	name, data, link string
	kind             byte // 0: by name and link
	mode             int64
	uid              int
}

func layer(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.data)), ModTime: time.Unix(1e9, 0)}
		if h.Typeflag == 0 {
			switch {
			case e.link != "":
				h.Typeflag = tar.TypeSymlink
			case strings.HasSuffix(e.name, "/"):
				h.Typeflag = tar.TypeDir
			default:
				h.Typeflag = tar.TypeReg
			}
		}
		if h.Mode == 0 {
			h.Mode = map[bool]int64{true: 0o755, false: 0o644}[h.Typeflag == tar.TypeDir]
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func build(t testing.TB, c v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, c
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

func store(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), os.Geteuid() == 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// archive is img as docker save writes it.
func archive(t testing.TB, img v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag("orchard.test/image:one")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatal(err)
	}
	return path
}

func get(t testing.TB, s *Store, ref string) *Image {
	t.Helper()
	img, err := s.Get(t.Context(), ref)
	if err != nil {
		t.Fatalf("%s: %v", ref, err)
	}
	return img
}

// tree is every path below root with what it is.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch d.Type() {
		case os.ModeDir:
			found[rel] = "folder"
		case os.ModeSymlink:
			target, err := os.Readlink(path)
			found[rel] = "-> " + target
			return err
		case 0:
			data, err := os.ReadFile(path)
			found[rel] = string(data)
			return err
		default:
			found[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
