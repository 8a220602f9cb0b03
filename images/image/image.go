package image

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Config is what an image says of how it is run.
type Config struct {
	Platform   v1.Platform
	Labels     map[string]string
	Env        []string // NAME=value
	User       string   // "" is root
	Entrypoint []string
	Cmd        []string
}

// New is an image of layers, the lowest first. Its id is known once its files were read;
// they are compressed only when the image is written or pushed.
func New(c Config, layers ...[]File) (v1.Image, error) {
	if c.Platform.OS == "" || c.Platform.Architecture == "" {
		return nil, fmt.Errorf("an image needs a platform, such as linux/amd64")
	}
	for _, e := range c.Env {
		if !strings.Contains(e, "=") {
			return nil, fmt.Errorf("environment %q: want NAME=value", e)
		}
	}
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	m := &made{}
	file := v1.ConfigFile{
		OS: c.Platform.OS, Architecture: c.Platform.Architecture, Variant: c.Platform.Variant, Created: epoch,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{Labels: c.Labels, Env: c.Env, User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd},
	}
	for _, files := range layers {
		l, err := newLayer(files)
		if err != nil {
			return nil, err
		}
		id, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
		file.RootFS.DiffIDs = append(file.RootFS.DiffIDs, id)
		file.History = append(file.History, v1.History{Created: epoch, CreatedBy: "orchard/images/build"})
	}
	var err error
	if m.config, err = json.Marshal(file); err != nil {
		return nil, err
	}
	m.manifest = sync.OnceValues(m.describe)
	return partial.CompressedToImage(m)
}

// made is what the library needs of an image to know the rest.
type made struct {
	config   []byte
	layers   []v1.Layer
	manifest func() ([]byte, error)
}

func (m *made) MediaType() (types.MediaType, error) { return types.DockerManifestSchema2, nil }
func (m *made) RawConfigFile() ([]byte, error)      { return m.config, nil }
func (m *made) RawManifest() ([]byte, error)        { return m.manifest() }

func (m *made) LayerByDigest(want v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range m.layers {
		if got, err := l.Digest(); err != nil || got == want {
			return l, err
		}
	}
	if id, err := partial.ConfigName(m); err != nil {
		return nil, err
	} else if id == want {
		return partial.ConfigLayer(m)
	}
	return nil, fmt.Errorf("the image has no layer %s", want)
}

// describe compresses the layers to know their digests.
func (m *made) describe() ([]byte, error) {
	id, err := partial.ConfigName(m)
	if err != nil {
		return nil, err
	}
	// Docker's media types, since an archive in Docker's format has no others: an image
	// pushed out of its archive keeps its digest.
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2,
		Config: v1.Descriptor{MediaType: types.DockerConfigJSON, Size: int64(len(m.config)), Digest: id}}
	for _, l := range m.layers {
		d, err := partial.Descriptor(l)
		if err != nil {
			return nil, err
		}
		manifest.Layers = append(manifest.Layers, *d)
	}
	return json.Marshal(manifest)
}
