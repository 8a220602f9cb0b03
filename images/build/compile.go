package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const stamp = "orchard/internal/buildinfo"

// compile builds programs so that their bytes depend on nothing but the sources, the Go
// toolchain and the settings below. It is quick when they are there: go build asks each
// program what it was built of, by the build id in it.
func (b *builder) compile(ctx context.Context, p v1.Platform, programs []string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false",
		"-ldflags", fmt.Sprintf("-s -w -X %s.Version=%s -X %s.Revision=%s", stamp, b.version, stamp, b.revision),
		"-o", filepath.Dir(b.programPath(p, "x")) + string(filepath.Separator)}
	for _, program := range programs {
		args = append(args, "orchard/cmd/"+program)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// Nothing that a user has set for other builds.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w", p, err)
	}
	return nil
}

// programPath is where compile leaves a program.
func (b *builder) programPath(p v1.Platform, program string) string {
	return filepath.Join(b.dist, "programs", p.OS+"-"+p.Architecture, program)
}
