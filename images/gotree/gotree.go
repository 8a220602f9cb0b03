// Package gotree takes the Go of this machine as files for an image, with a build cache in which
// the whole standard library is: a first `go test` in a container then takes a second and not a
// minute. It downloads nothing.
package gotree

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"orchard/images/image"
)

// Tree is an installation of Go.
type Tree struct {
	Root    string // GOROOT, here and in the image: the cache holds an index of that folder
	Version string
}

// Find asks the go on PATH.
func Find(ctx context.Context) (Tree, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return Tree{}, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !filepath.IsAbs(lines[0]) {
		return Tree{}, fmt.Errorf("go env answered %q", out)
	}
	return Tree{Root: filepath.Clean(lines[0]), Version: lines[1]}, nil
}

// Files is what `go build`, `go test` and `go vet` need of the tree: without the tests of the
// standard library, the sources of the programs in it, and the documentation.
func (t Tree) Files() ([]image.File, error) {
	var files []image.File
	for _, part := range []string{"VERSION", "LICENSE", "go.env", "bin", "lib/time", "pkg/include", "pkg/tool", "src"} {
		at := filepath.Join(t.Root, part)
		found, err := image.Folder(at, at, func(rel string, d fs.DirEntry) bool {
			return part != "src" || rel != "cmd" && d.Name() != "testdata" && !strings.HasSuffix(rel, "_test.go")
		})
		if err != nil {
			return nil, fmt.Errorf("take Go from %s: %w", t.Root, err)
		}
		files = append(files, found...)
	}
	return files, nil
}
