package debian

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"orchard/images/sbom"
)

// owners is the packages that files belong to, with their versions.
func owners(ctx context.Context, files []string) ([]sbom.Package, error) {
	query := []string{"-S"}
	for _, f := range files {
		if f == "" {
			continue
		}
		// dpkg knows a file by the name that its package had it under, which may be that of
		// before /usr was merged.
		query = append(query, f, strings.TrimPrefix(f, "/usr"))
	}
	// It exits with 1 when it knows one of them not.
	out, err := dpkg(ctx, query...)
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 1) {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		owner, _, ok := strings.Cut(line, ": ")
		if !ok || strings.Contains(owner, " ") {
			continue // a diversion, or a file of several packages, which no program is
		}
		names = append(names, owner)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil, fmt.Errorf("dpkg-query knows no package of %d files", len(files))
	}
	out, err = dpkg(ctx, append([]string{"-W", "-f", "${Package}\t${Version}\t${Architecture}\n"}, names...)...)
	if err != nil {
		return nil, err
	}
	id, version := release()
	var packages []sbom.Package
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("dpkg-query answered %q", line)
		}
		packages = append(packages, sbom.Package{
			Name: fields[0], Version: fields[1],
			PURL: fmt.Sprintf("pkg:deb/%s/%s@%s?arch=%s&distro=%s-%s", id, fields[0], url.QueryEscape(fields[1]), fields[2], id, version),
			From: "installed on the machine that built the image",
		})
	}
	return packages, nil
}

// release is this machine's distribution and its version.
func release() (id, version string) {
	id = "debian"
	raw, _ := os.ReadFile("/etc/os-release") // without it: Debian, of no version
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"`); key {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	return id, version
}
