// Command images makes the images that the tests on a cluster start sandboxes from, as archives in
// dist/images; images/build.sh runs it from the top folder.
//
//	orchard-test/bash:1   bash, GNU tools and git, as this Debian has them
//	orchard-test/sh:1     a shell that is not bash, and nothing else
//	orchard-test/bare:1   one static program, no shell
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"orchard/images/debian"
	"orchard/images/image"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "test images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tools, err := debian.Packages(ctx, "bash", "coreutils", "dash", "diffutils", "findutils", "git", "grep", "procps", "sed", "tar")
	if err != nil {
		return err
	}
	bash := append(tools.Files, image.Dir("/root", 0o755), image.Dir("/home/user", 0o755),
		image.Dir("/tmp", 0o777|fs.ModeSticky), image.Dir("/var/tmp", 0o777|fs.ModeSticky),
		image.File{Path: "/etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n")},
		image.File{Path: "/etc/group", Data: []byte("root:x:0:\nuser:x:1000:\n")})
	if err := archive("bash", image.Config{Env: []string{"PATH=/usr/bin:/bin"}, Cmd: []string{"bash"}}, bash); err != nil {
		return err
	}
	if err := archive("sh", image.Config{Cmd: []string{"sh"}}, []image.File{{Path: "/bin/sh", Mode: 0o755, Source: "/bin/busybox"}}); err != nil {
		return err
	}
	program := filepath.Join("dist", "programs", "bare")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", program, "./test/e2e/kube/images/bare")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build bare: %w", err)
	}
	return archive("bare", image.Config{Entrypoint: []string{"/bare"}}, []image.File{{Path: "/bare", Mode: 0o755, Source: program}})
}

func archive(name string, c image.Config, files []image.File) error {
	c.Platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	img, err := image.New(c, files)
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	_, err = image.WriteArchive(filepath.Join("dist", "images", name+".tar"), "localhost/orchard-test/"+name+":1", img)
	return err
}
