// Package sbom writes down what an image is made of, as a document of SPDX 2.3: programs with
// their hashes, and the packages in them. The same content gives the same bytes: there is no
// time in it but the first second of 1970, and its name is made of its content.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Subject is what a document is about.
type Subject struct {
	Name, Version string
	Comment       string // how it was built
	Files         []File
	Packages      []Package
}

// Package is something that others publish.
type Package struct {
	Name, Version string
	PURL          string // its package URL
	From          string // where it came from, in words
}

// File is one file of an image.
type File struct {
	Path         string // absolute in the image
	SHA1, SHA256 string
}

// ReadFile sums the file at source, which lies at path in the image.
func ReadFile(path, source string) (_ File, err error) {
	f, err := os.Open(source)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	one, two := sha1.New(), sha256.New() // SPDX requires the first
	if _, err := io.Copy(io.MultiWriter(one, two), f); err != nil {
		return File{}, err
	}
	return File{Path: path, SHA1: hex.EncodeToString(one.Sum(nil)), SHA256: hex.EncodeToString(two.Sum(nil))}, nil
}

// Document is the SPDX document of s, as JSON.
func Document(s Subject) ([]byte, error) {
	root := "SPDXRef-Image"
	d := document{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: s.Name,
		Creation: creation{Created: "1970-01-01T00:00:00Z", Creators: []string{"Organization: Orchard", "Tool: orchard-images-build"}},
		Packages: []pkg{{
			ID: root, Name: s.Name, Version: s.Version, Location: none, License: none, Declared: none, Copyright: none,
			Purpose: "CONTAINER", Comment: s.Comment,
		}},
		Relations: []relation{{"SPDXRef-DOCUMENT", root, "DESCRIBES"}},
	}
	packages := slices.Clone(s.Packages)
	slices.SortFunc(packages, func(a, b Package) int { return cmp.Or(cmp.Compare(a.PURL, b.PURL), cmp.Compare(a.From, b.From)) })
	for i, p := range slices.Compact(packages) {
		id := fmt.Sprintf("SPDXRef-Package-%d-%s", i+1, idText(p.Name))
		d.Packages = append(d.Packages, pkg{
			ID: id, Name: p.Name, Version: p.Version, Location: none, License: none, Declared: none, Copyright: none, Source: p.From,
			Refs: []ref{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: p.PURL}},
		})
		d.Relations = append(d.Relations, relation{root, id, "CONTAINS"})
	}
	files := slices.SortedFunc(slices.Values(s.Files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for i, f := range files {
		id := fmt.Sprintf("SPDXRef-File-%d-%s", i+1, idText(f.Path))
		d.Files = append(d.Files, file{ID: id, Name: "." + f.Path, License: none, Copyright: none,
			Sums: []sum{{"SHA1", f.SHA1}, {"SHA256", f.SHA256}}})
		d.Relations = append(d.Relations, relation{root, id, "CONTAINS"})
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%x", idText(s.Name), sha256.Sum256(raw))
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a package URL has an &, and people look for it
	e.SetIndent("", " ")
	err = e.Encode(d)
	return text.Bytes(), err
}

// idText is text as an identifier of SPDX may have it.
func idText(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, s), "-")
}
