package sbom

import (
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
)

// GoBinary reads what the Go toolchain wrote into the program at path: the modules in it with the
// sums of go.sum, the standard library, and how it was built.
func GoBinary(path string) (packages []Package, settings string, err error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	packages = append(packages, Standard(info.GoVersion))
	for _, m := range info.Deps {
		packages = append(packages, module(m))
	}
	words := []string{info.GoVersion}
	for _, s := range info.Settings {
		words = append(words, s.Key+"="+s.Value)
	}
	return packages, fmt.Sprintf("%s, built by %s", info.Path, strings.Join(words, " ")), nil
}

// Standard is Go's standard library, in the version that runtime.Version gives.
func Standard(goVersion string) Package {
	version, _, _ := strings.Cut(strings.TrimPrefix(goVersion, "go"), " ")
	return Package{Name: "stdlib", Version: version, PURL: "pkg:golang/stdlib@" + version, From: "the standard library of Go"}
}

func module(m *debug.Module) Package {
	from := "Go module " + m.Path + " " + m.Version
	if m.Replace != nil {
		from += ", replaced by " + m.Replace.Path
		m = m.Replace
	}
	if m.Sum != "" {
		from += "; go.sum has " + m.Sum
	}
	return Package{Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + strings.ToLower(m.Path) + "@" + strings.ReplaceAll(m.Version, "+", "%2B"), From: from}
}
