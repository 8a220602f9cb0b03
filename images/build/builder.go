package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"orchard/images/image"
	"orchard/internal/whole"
)

// builder makes images of one version.
type builder struct{ dist, version, revision string }

// made is an image and the list of what is in it, which lies in it too.
type made struct {
	img  v1.Image
	sbom []byte
}

// host is the platform of this machine's containers.
func host() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

var revisions = regexp.MustCompile(`^([0-9a-f]{7,64}(\+dirty)?)?$`)

func newBuilder(dist, version, revision string) (*builder, error) {
	if _, err := name.NewTag("orchard:" + version); err != nil || version == "" {
		return nil, fmt.Errorf("version %q: want what the tag of an image may be, such as 1.2.0", version)
	}
	if !revisions.MatchString(revision) {
		return nil, fmt.Errorf("revision %q: want the id of a commit, with +dirty if more was changed", revision)
	}
	dist, err := filepath.Abs(dist)
	return &builder{dist: dist, version: version, revision: revision}, err
}

// parsePlatforms reads platforms that are separated by commas.
func parsePlatforms(text string) ([]v1.Platform, error) {
	var all []v1.Platform
	for one := range strings.SplitSeq(text, ",") {
		p, err := v1.ParsePlatform(one)
		if err != nil || p.OS != "linux" || p.Architecture == "" {
			return nil, fmt.Errorf("platform %q: want such as linux/amd64", one)
		}
		if slices.ContainsFunc(all, p.Equals) {
			return nil, fmt.Errorf("platform %s is named twice", p)
		}
		all = append(all, *p)
	}
	return all, nil
}

// archive makes dist/images/NAME.tar of each image, and NAME.spdx.json beside it.
func (b *builder) archive(ctx context.Context, stdout io.Writer, names []string) error {
	return b.each(ctx, host(), names, func(name string, m made) error {
		path := filepath.Join(b.dist, "images", name+".tar")
		tag := fmt.Sprintf("localhost/orchard/%s:%s", name, b.version)
		wrote, err := image.WriteArchive(path, tag, m.img)
		if err != nil {
			return err
		}
		if err := writeIfChanged(strings.TrimSuffix(path, ".tar")+".spdx.json", m.sbom); err != nil {
			return err
		}
		there, err := image.ReadArchive(path)
		if err != nil {
			return err
		}
		digest, err := there.Digest()
		if err != nil {
			return fmt.Errorf("read image %s: %w", path, err)
		}
		state := "unchanged"
		if wrote {
			state = "new"
		}
		_, err = fmt.Fprintln(stdout, tag, digest, state)
		return err
	})
}

// push hands each image to a registry and prints it by its digest.
func (b *builder) push(ctx context.Context, stdout io.Writer, registry string, platforms []v1.Platform, names []string) error {
	images := map[string][]v1.Image{}
	for _, p := range platforms {
		err := b.each(ctx, p, names, func(name string, m made) error {
			images[name] = append(images[name], m.img)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		pushed, err := image.Push(ctx, fmt.Sprintf("%s/%s:%s", strings.TrimRight(registry, "/"), name, b.version), images[name]...)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout, pushed); err != nil {
			return err
		}
	}
	return nil
}

// each makes images for one platform, their programs first and together, and hands over one after the other.
func (b *builder) each(ctx context.Context, p v1.Platform, names []string, use func(string, made) error) error {
	if len(names) == 0 {
		return fmt.Errorf("no image is named; there are %s", strings.Join(imageNames(), ", "))
	}
	var commands []string
	for _, name := range names {
		r, ok := recipes[name]
		if !ok {
			return fmt.Errorf("there is no image %q; there are %s", name, strings.Join(imageNames(), ", "))
		}
		if r.program != "" {
			commands = append(commands, r.program)
		}
	}
	if len(commands) > 0 {
		if err := b.compile(ctx, p, commands); err != nil {
			return err
		}
	}
	for _, name := range names {
		m, err := recipes[name].make(ctx, b, name, p)
		if err == nil {
			err = use(name, m)
		}
		if err != nil {
			return fmt.Errorf("image %s for %s: %w", name, p, err)
		}
	}
	return nil
}

func writeIfChanged(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && slices.Equal(old, content) {
		return nil
	}
	if err := whole.WriteBytes(path, 0o644, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
