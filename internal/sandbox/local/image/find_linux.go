package image

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"orchard/internal/sandbox"
)

// source is an image that was found, and what to remove when it is read.
type source struct {
	image v1.Image
	close func()
}

// The prefixes that say what a path is. Without one, its content says it.
const (
	prefixDocker  = "docker-archive:"
	prefixLayout  = "oci:"
	prefixArchive = "oci-archive:"
)

// pathOf is the path that ref names, if it names one, and the tag after it.
func pathOf(ref string) (path, tag string, ok bool) {
	for _, prefix := range []string{prefixDocker, prefixLayout, prefixArchive} {
		rest, cut := strings.CutPrefix(ref, prefix)
		if !cut {
			continue
		}
		// The tag follows the first colon that does not belong to the file's name.
		if _, err := os.Stat(rest); err != nil {
			if before, after, found := strings.Cut(rest, ":"); found {
				return before, after, true
			}
		}
		return rest, "", true
	}
	if filepath.IsAbs(ref) || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") {
		return ref, "", true
	}
	return "", "", false
}

func (s *Store) find(ctx context.Context, ref string) (source, error) {
	path, tag, ok := pathOf(ref)
	if !ok {
		return pull(ctx, ref)
	}
	refuse := func(reason string, err error) error {
		if err != nil {
			reason = fmt.Sprintf("%s: %v", reason, err)
		}
		return &sandbox.Refused{Image: ref, Reason: reason}
	}
	info, err := os.Stat(path)
	if err != nil {
		return source{}, refuse("there is no image", err)
	}
	if info.IsDir() {
		img, err := fromLayout(path, tag)
		if err != nil {
			return source{}, refuse("it is not an OCI layout with an image for this machine", err)
		}
		return source{image: img, close: func() {}}, nil
	}
	kind, err := archiveKind(path)
	switch {
	case err != nil:
		return source{}, refuse("it is not an image archive", err)
	case kind == prefixArchive:
		return s.fromArchive(path, tag, refuse)
	}
	img, err := fromDocker(path, tag)
	if err != nil {
		return source{}, refuse("it is not a docker archive of one image", err)
	}
	return source{image: img, close: func() {}}, nil
}

// pull asks a registry.
func pull(ctx context.Context, ref string) (source, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return source{}, &sandbox.Refused{Image: ref, Reason: "neither \"host\", a path nor an image name: " + err.Error()}
	}
	img, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	var answer *transport.Error
	switch {
	case errors.As(err, &answer) && answer.StatusCode >= 400 && answer.StatusCode < 500 && !answer.Temporary():
		return source{}, &sandbox.Refused{Image: ref, Reason: "the registry refuses it: " + err.Error()}
	case err != nil:
		return source{}, fmt.Errorf("pull image %s: %w", ref, err)
	}
	return source{image: img, close: func() {}}, nil
}

func fromDocker(path, tag string) (v1.Image, error) {
	var want *name.Tag
	if tag != "" {
		t, err := name.NewTag(tag)
		if err != nil {
			return nil, err
		}
		want = &t
	}
	return tarball.Image(func() (io.ReadCloser, error) { return openArchive(path) }, want)
}

// fromLayout is the image of a layout folder for this machine, through nested indexes.
func fromLayout(dir, tag string) (v1.Image, error) {
	idx, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	return pick(idx, tag)
}

const refAnnotation = "org.opencontainers.image.ref.name"

func pick(idx v1.ImageIndex, tag string) (v1.Image, error) {
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	here := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	var found []v1.Descriptor
	for _, d := range m.Manifests {
		if tag != "" && d.Annotations[refAnnotation] != tag {
			continue
		}
		if d.Platform == nil || d.Platform.Satisfies(here) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d of its %d images fit (tag %q, %s); name one as %sPATH:TAG", len(found), len(m.Manifests), tag, here.String(), prefixLayout)
	}
	if found[0].MediaType.IsIndex() {
		nested, err := idx.ImageIndex(found[0].Digest)
		if err != nil {
			return nil, err
		}
		return pick(nested, "")
	}
	return idx.Image(found[0].Digest)
}

// openArchive opens a tar that may be compressed as a whole.
func openArchive(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || magic != [2]byte{0x1f, 0x8b} {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// stamp is a file as it was when it was read last.
type stamp struct {
	ref  string
	size int64
	mod  time.Time
}

// stampOf is the stamp of an archive; folders and names have none.
func stampOf(ref string) (stamp, bool) {
	path, _, ok := pathOf(ref)
	if !ok {
		return stamp{}, false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return stamp{}, false
	}
	return stamp{ref, info.Size(), info.ModTime()}, true
}

// memo remembers which image a file holds, so that starting a second sandbox of an
// archive does not read the archive.
type memo struct {
	mu sync.Mutex
	m  map[stamp]string
}

func (m *memo) get(s stamp) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	digest, ok := m.m[s]
	return digest, ok
}

func (m *memo) put(s stamp, digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[stamp]string{}
	}
	m.m[s] = digest
}

// fromArchive reads a tar of an OCI layout through a temporary folder.
func (s *Store) fromArchive(path, tag string, refuse func(string, error) error) (source, error) {
	dir, err := os.MkdirTemp(s.dir, "layout-")
	if err != nil {
		return source{}, err
	}
	clean := func() { os.RemoveAll(dir) }
	if err := extractLayout(path, dir); err != nil {
		clean()
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
			return source{}, refuse("its archive cannot be read", err)
		}
		return source{}, fmt.Errorf("image %s: %w", path, err)
	}
	img, err := fromLayout(dir, tag)
	if err != nil {
		clean()
		return source{}, refuse("it holds no image for this machine", err)
	}
	return source{image: img, close: clean}, nil
}
