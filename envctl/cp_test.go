package envctl_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/internal/sandbox/sandboxtest"
)

// names are what file names may be, and what breaks tools that do not think of it.
var names = rapid.OneOf(
	rapid.SampledFrom([]string{"a", "a b", " ", "é", "报告.pdf", `'"`, "two\nlines", "-rf", "--", "#?%2F", ".hidden", "..x", `back\slash`, "a:b", "*", "\t",
		strings.Repeat("n", 255), strings.Repeat("报", 85)}),
	rapid.StringMatching(`[ -.0-~]{1,20}`).Filter(func(s string) bool { return s != "." && s != ".." }),
)

// grow makes a random tree below dir.
func grow(t *rapid.T, dir string, depth int) {
	for _, name := range rapid.SliceOfNDistinct(names, 0, 4, rapid.ID).Draw(t, "names") {
		at := filepath.Join(dir, name)
		var err error
		switch kind := rapid.SampledFrom([]string{"file", "file", "folder", "link"}).Draw(t, "kind"); {
		case kind == "folder" && depth > 0:
			mode := rapid.SampledFrom([]fs.FileMode{0o755, 0o700, 0o555}).Draw(t, "mode")
			if err = os.Mkdir(at, 0o755); err == nil {
				grow(t, at, depth-1)
				err = os.Chmod(at, mode)
			}
		case kind == "link":
			err = os.Symlink(rapid.SampledFrom([]string{"a", "nowhere", "./a b"}).Draw(t, "target"), at)
		default:
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o600, 0o755, 0o444}).Draw(t, "mode")
			if err = os.WriteFile(at, rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content"), 0o644); err == nil {
				err = os.Chmod(at, mode)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree is everything below dir, by path: kind, mode and content.
func tree(t *rapid.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %q", info.ModTime().UnixNano(), raw)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + target
		}
		all[path[len(dir):]] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever is in a folder, it comes back as it went.
func TestCopyRoundTrip(t *testing.T) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		t.Fatal(err)
	}
	service := sandboxtest.New(t)
	box := newBox(t, service)
	defer endBox(t, box)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		if err := os.Mkdir(from, 0o755); err != nil {
			r.Fatal(err)
		}
		grow(r, from, 2)
		there := fmt.Sprintf("%s:/tmp/%d/报告 %d", box.ID(), n, n)
		if got := call(t, service, "", "cp", from, there); got.code != 0 {
			r.Fatalf("up: %+v", got)
		}
		if got := call(t, service, "", "cp", there, to); got.code != 0 {
			r.Fatalf("down: %+v", got)
		}
		if d := cmp.Diff(tree(r, from), tree(r, to)); d != "" {
			r.Fatalf("-there +back\n%s", d)
		}
	})
}

// A single file of any name keeps it, and its content and mode.
func TestCopyNames(t *testing.T) {
	service := sandboxtest.New(t)
	box := newBox(t, service)
	defer endBox(t, box)
	for _, name := range []string{"a b", " ", "é", "报告.pdf", `'"`, "two\nlines", "-rf", "#?%2F", "%2e%2e", strings.Repeat("n", 255)} {
		dir := t.TempDir()
		from := filepath.Join(dir, name)
		if err := os.WriteFile(from, []byte(name), 0o751); err != nil {
			t.Fatal(err)
		}
		if got := call(t, service, "", "cp", from, box.ID()+":/tmp/"); got.code != 0 {
			t.Errorf("%q up: %+v", name, got)
			continue
		}
		to := filepath.Join(dir, "to") + "/"
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := call(t, service, "", "cp", box.ID()+":/tmp/"+name, to); got.code != 0 {
			t.Errorf("%q down: %+v", name, got)
			continue
		}
		raw, err := os.ReadFile(to + name)
		info, statErr := os.Stat(to + name)
		if err != nil || statErr != nil || string(raw) != name || info.Mode() != 0o751 {
			t.Errorf("%q came back as %q, %v, %v", name, raw, err, info)
		}
	}
}
