package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Push hands images, one a platform, to a registry under one tag, with the credentials
// that docker or podman keep for it. The answer names them by digest; several are one index there.
func Push(ctx context.Context, tag string, images ...v1.Image) (string, error) {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return "", err
	}
	opts := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("orchard-images")}
	var digest v1.Hash
	switch len(images) {
	case 0:
		return "", errors.New("there is no image to push")
	case 1:
		if digest, err = images[0].Digest(); err == nil {
			err = remote.Write(ref, images[0], opts...)
		}
	default:
		var index v1.ImageIndex
		if index, err = newIndex(images); err != nil {
			return "", err
		}
		if digest, err = index.Digest(); err == nil {
			err = remote.WriteIndex(ref, index, opts...)
		}
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return ref.Context().Name() + "@" + digest.String(), nil
}

// newIndex is images of several platforms under one digest.
func newIndex(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, img := range images {
		c, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: c.Platform()}})
	}
	return index, nil
}
