package sbom_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"orchard/images/sbom"
)

// spdx is a document as a reader of the standard sees it.
type spdx struct {
	SPDXVersion, DataLicense, SPDXID, Name, DocumentNamespace string
	CreationInfo                                              struct {
		Created  string
		Creators []string
	}
	Packages []struct {
		SPDXID, Name, VersionInfo, DownloadLocation, SourceInfo, Comment string
		FilesAnalyzed                                                    *bool
		ExternalRefs                                                     []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string }
	}
	Files []struct {
		SPDXID, FileName string
		Checksums        []struct{ Algorithm, ChecksumValue string }
	}
	Relationships []struct{ SpdxElementID, RelatedSpdxElement, RelationshipType string }
}

var (
	ids  = regexp.MustCompile(`^SPDXRef-[a-zA-Z0-9.-]+$`)
	purl = regexp.MustCompile(`^pkg:[a-z]+/[^ @]+@[^ @]+$`)
)

// check is what SPDX 2.3 asks of every document, as far as ours has it.
func check(t *testing.T, raw []byte) spdx {
	t.Helper()
	var d spdx
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	if d.SPDXVersion != "SPDX-2.3" || d.DataLicense != "CC0-1.0" || d.SPDXID != "SPDXRef-DOCUMENT" || d.Name == "" || d.CreationInfo.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("head: %.300s", raw)
	}
	if !strings.HasPrefix(d.DocumentNamespace, "https://") || strings.Contains(d.DocumentNamespace, "#") {
		t.Errorf("namespace %q", d.DocumentNamespace)
	}
	for _, c := range d.CreationInfo.Creators {
		if !regexp.MustCompile(`^(Tool|Organization): .+`).MatchString(c) {
			t.Errorf("creator %q", c)
		}
	}
	known := []string{d.SPDXID}
	for i, p := range d.Packages {
		if !ids.MatchString(p.SPDXID) || p.Name == "" || p.DownloadLocation == "" || p.FilesAnalyzed == nil || *p.FilesAnalyzed {
			t.Errorf("package %+v", p)
		}
		if i > 0 && (len(p.ExternalRefs) != 1 || p.ExternalRefs[0].ReferenceCategory != "PACKAGE-MANAGER" || p.ExternalRefs[0].ReferenceType != "purl" || !purl.MatchString(p.ExternalRefs[0].ReferenceLocator)) {
			t.Errorf("package %s has %+v", p.Name, p.ExternalRefs)
		}
		known = append(known, p.SPDXID)
	}
	for _, f := range d.Files {
		if !ids.MatchString(f.SPDXID) || !strings.HasPrefix(f.FileName, "./") || !slices.ContainsFunc(f.Checksums, func(c struct{ Algorithm, ChecksumValue string }) bool { return c.Algorithm == "SHA1" }) {
			t.Errorf("file %+v", f)
		}
		known = append(known, f.SPDXID)
	}
	related := map[string]bool{d.SPDXID: true}
	for _, r := range d.Relationships {
		if !slices.Contains(known, r.SpdxElementID) || !slices.Contains(known, r.RelatedSpdxElement) {
			t.Errorf("relation of what is not there: %+v", r)
		}
		related[r.RelatedSpdxElement] = true
	}
	if len(related) != len(known) || len(slices.Compact(slices.Sorted(slices.Values(known)))) != len(known) {
		t.Errorf("%d things are related, %d are there: %v", len(related), len(known), known)
	}
	return d
}

// A program's document names each module with its sum, the standard library, and the program's own sums.
func TestDocumentOfAProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orchard-agent")
	if out, err := exec.Command("go", "build", "-o", path, "orchard/cmd/orchard-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages, settings, err := sbom.GoBinary(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := sbom.ReadFile("/orchard-agent", path)
	if err != nil {
		t.Fatal(err)
	}
	subject := sbom.Subject{Name: "orchard-agent", Version: "1.2", Comment: settings, Packages: packages, Files: []sbom.File{file}}
	raw, err := sbom.Document(subject)
	if err != nil {
		t.Fatal(err)
	}
	d := check(t, raw)
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 3 || len(d.Packages) != len(info.Deps)+2 {
		t.Errorf("%d packages for %d modules", len(d.Packages), len(info.Deps))
	}
	text := string(raw)
	for _, m := range info.Deps {
		for _, want := range []string{fmt.Sprintf(`"name": %q`, m.Path), fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version), "go.sum has " + m.Sum} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the document lacks %s", m.Path, want)
			}
		}
	}
	if want := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"); !strings.Contains(text, want) {
		t.Errorf("the document lacks %s", want)
	}
	if c := d.Packages[0].Comment; !strings.Contains(c, runtime.Version()) || !strings.Contains(c, "CGO_ENABLED=") || d.Packages[0].VersionInfo != "1.2" {
		t.Errorf("built by %q", c)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("%x", sha1.Sum(program)), fmt.Sprintf("%x", sha256.Sum256(program)), `"./orchard-agent"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
}

// The order in which things were found says nothing; what they are does.
func TestDocumentsNameIsItsContent(t *testing.T) {
	t.Parallel()
	document := func(change func(*sbom.Subject)) []byte {
		s := sbom.Subject{Name: "x", Version: "1",
			Packages: []sbom.Package{{Name: "b", Version: "1", PURL: "pkg:golang/b@1"}, {Name: "a/é", Version: "1", PURL: "pkg:golang/a@1"}},
			Files:    []sbom.File{{Path: "/b", SHA1: "1", SHA256: "2"}, {Path: "/a", SHA1: "3", SHA256: "4"}}}
		change(&s)
		raw, err := sbom.Document(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	one := document(func(*sbom.Subject) {})
	d := check(t, one)
	if two := document(func(s *sbom.Subject) { slices.Reverse(s.Packages); slices.Reverse(s.Files) }); !bytes.Equal(one, two) {
		t.Error("another order is another document")
	}
	if twice := document(func(s *sbom.Subject) { s.Packages = append(s.Packages, s.Packages[0]) }); !bytes.Equal(one, twice) {
		t.Error("the same package found twice is another document")
	}
	for name, change := range map[string]func(*sbom.Subject){
		"version": func(s *sbom.Subject) { s.Packages[0].Version = "2" },
		"sum":     func(s *sbom.Subject) { s.Files[0].SHA256 = "5" },
	} {
		if other := check(t, document(change)); other.DocumentNamespace == d.DocumentNamespace {
			t.Errorf("another %s, and the same namespace", name)
		}
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	if _, _, err := sbom.GoBinary("/bin/sh"); err == nil {
		t.Error("a program that Go did not make has build information")
	}
	if _, err := sbom.ReadFile("/x", "/nowhere"); err == nil {
		t.Error("a file that is not there was summed")
	}
}
