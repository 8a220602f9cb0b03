package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"orchard/images/debian"
	"orchard/images/gotree"
	"orchard/images/image"
	"orchard/images/sbom"
)

// recipe is how one image is made.
type recipe struct {
	program     string // the command that is its entrypoint, or ""
	description string
	make        func(context.Context, *builder, string, v1.Platform) (made, error)
}

var recipes map[string]recipe

func init() {
	recipes = map[string]recipe{
		"stage":      {"orchard", "Orchard's stages: batch jobs that turn task sets into training data for agents.", stage},
		"controller": {"orchard-controller", "Orchard's sandbox service.", program},
		"agent":      {"orchard-agent", "The program inside every sandbox of Orchard.", program},
		"toolchain":  {"", "Go, git, bash and GNU tools: what sandboxes of Go tasks start from that name no image.", toolchain},
	}
}

func imageNames() []string { return slices.Sorted(maps.Keys(recipes)) }

const (
	nobody   = "65532" // who programs run as; the number is what distroless images have
	sbomPath = "/sbom.spdx.json"
	cache    = "/var/cache/go-build"
)

// program is one static program, and nothing else.
func program(_ context.Context, b *builder, name string, p v1.Platform) (made, error) {
	return b.programImage(name, p, image.Config{}, nil, debian.Set{})
}

// stage has git below it, which the stage import packs repositories with, and a place for
// temporary files and a name for its user, which libraries ask for.
func stage(ctx context.Context, b *builder, name string, p v1.Platform) (made, error) {
	files := []image.File{
		image.Dir("/tmp", 0o777|os.ModeSticky),
		{Path: "/etc/passwd", Data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nobody + ":" + nobody + ":nonroot:/tmp:/sbin/nologin\n")},
		{Path: "/etc/group", Data: []byte("root:x:0:\nnonroot:x:" + nobody + ":\n")},
	}
	git := debian.Set{}
	if _, err := exec.LookPath("dpkg-query"); err == nil && p.Equals(host()) {
		if git, err = debian.Programs(ctx, "/usr/bin/git"); err != nil {
			return made{}, err
		}
	} else {
		fmt.Fprintf(os.Stderr, "images: %s for %s has no git, which comes from a Debian of that platform: its import takes no tasks that bring a repository along\n", name, p)
	}
	return b.programImage(name, p, image.Config{Env: []string{"PATH=/usr/bin", "HOME=/tmp"}}, files, git)
}

// programImage is a layer of what lies below, if anything does, and one of the program and files.
func (b *builder) programImage(name string, p v1.Platform, c image.Config, files []image.File, below debian.Set) (made, error) {
	r := recipes[name]
	path := b.programPath(p, r.program)
	packages, settings, err := sbom.GoBinary(path)
	if err != nil {
		return made{}, err
	}
	entrypoint := "/" + r.program
	c.User, c.Entrypoint = nobody+":"+nobody, []string{entrypoint}
	files = append(files, image.File{Path: entrypoint, Mode: 0o755, Source: path})
	subject := sbom.Subject{Comment: settings, Packages: append(packages, below.Packages...)}
	for _, f := range append(slices.Clone(below.Files), image.File{Path: entrypoint, Source: path}) {
		if f.Source == "" {
			continue
		}
		summed, err := sbom.ReadFile(f.Path, f.Source)
		if err != nil {
			return made{}, err
		}
		subject.Files = append(subject.Files, summed)
	}
	return b.finish(name, p, c, subject, below.Files, files)
}

// toolchain is this machine's Go with a warm build cache, and tools of its Debian.
func toolchain(ctx context.Context, b *builder, name string, p v1.Platform) (made, error) {
	if !p.Equals(host()) {
		return made{}, fmt.Errorf("it is made of this machine's programs, which are for %s", host())
	}
	tools, err := debian.Packages(ctx, "bash", "coreutils", "dash", "diffutils", "findutils", "git", "grep", "gzip", "mawk", "patch", "procps", "sed", "tar")
	if err != nil {
		return made{}, err
	}
	tools.Files = append(tools.Files, image.Symlink("/usr/bin/awk", "mawk"), // as /etc/alternatives would say
		image.Dir("/tmp", 0o777|os.ModeSticky), image.Dir("/var/tmp", 0o777|os.ModeSticky), image.Dir("/root", 0o777),
		image.File{Path: "/etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/root:/bin/bash\n")},
		image.File{Path: "/etc/group", Data: []byte("root:x:0:\nuser:x:1000:\n")})
	tree, err := gotree.Find(ctx)
	if err != nil {
		return made{}, err
	}
	goFiles, err := tree.Files()
	if err != nil {
		return made{}, err
	}
	kept, err := os.UserCacheDir() // it takes minutes, and is the same for every checkout
	if err != nil {
		return made{}, err
	}
	warm, err := tree.Cache(ctx, filepath.Join(kept, "orchard-images"), cache)
	if err != nil {
		return made{}, err
	}
	c := image.Config{Cmd: []string{"bash"}, Env: append(gotree.Env(cache), "HOME=/root", "LANG=C.UTF-8",
		"PATH="+tree.Root+"/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")}
	subject := sbom.Subject{Comment: tree.Version + " and programs of the machine that built the image", Packages: append(tools.Packages, sbom.Standard(tree.Version))}
	return b.finish(name, p, c, subject, tools.Files, goFiles, warm)
}

// finish adds the labels and what the image is made of, and leaves out layers without a file.
func (b *builder) finish(name string, p v1.Platform, c image.Config, subject sbom.Subject, layers ...[]image.File) (made, error) {
	subject.Name, subject.Version = "orchard-"+name, b.version
	text, err := sbom.Document(subject)
	if err != nil {
		return made{}, err
	}
	layers = slices.DeleteFunc(layers, func(files []image.File) bool { return len(files) == 0 })
	layers[len(layers)-1] = append(layers[len(layers)-1], image.File{Path: sbomPath, Data: text})
	c.Platform = p
	c.Labels = map[string]string{
		"org.opencontainers.image.title":       "orchard-" + name,
		"org.opencontainers.image.description": recipes[name].description,
		"org.opencontainers.image.version":     b.version,
	}
	if recipes[name].program != "" {
		c.Labels["org.opencontainers.image.licenses"] = "Apache-2.0"
	}
	if b.revision != "" {
		c.Labels["org.opencontainers.image.revision"] = b.revision
	}
	img, err := image.New(c, layers...)
	return made{img, text}, err
}
