// Package warmgo has what warms a Go build cache: a module whose test makes Go compile and vet
// the whole standard library, as tests of real programs do. It runs nothing.
package warmgo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the module's go.mod and test into dir; std is what `go list std` prints. Packages that
// nobody can import are left out.
func Write(dir, std string) error {
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n\t\"testing\"\n")
	for _, pkg := range strings.Fields(std) {
		if pkg != "testing" && !strings.Contains("/"+pkg+"/", "/internal/") && !strings.HasPrefix(pkg, "vendor/") {
			fmt.Fprintf(&text, "\t_ %q\n", pkg)
		}
	}
	text.WriteString(")\n\nfunc TestWarm(*testing.T) {}\n")
	for name, content := range map[string]string{"go.mod": "module warm\n", "warm_test.go": text.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
