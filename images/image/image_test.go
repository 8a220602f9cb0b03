package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"orchard/images/image"
)

var amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// write makes a file in a new folder and returns its path.
func write(t *testing.T, content string, mode fs.FileMode, when time.Time) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content")
	if err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode), os.Chtimes(path, when, when)); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample is an image of one program and what goes with it.
func sample(t *testing.T, program string) v1.Image {
	t.Helper()
	img, err := image.New(image.Config{Platform: amd64, Labels: map[string]string{"b": "2", "a": "1"}, Env: []string{"PATH=/bin"}, User: "65532:65532", Entrypoint: []string{"/bin/program"}},
		[]image.File{{Path: "/etc/passwd", Data: []byte("root\n")}},
		[]image.File{{Path: "/bin/program", Mode: 0o755, Source: program}, image.Symlink("/bin/link", "program"), image.Dir("/tmp", 0o777|fs.ModeSticky),
			{Path: "/cache/old", Data: []byte("x"), Time: time.Date(2100, 1, 1, 0, 0, 0, 1, time.UTC)}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestImageIsValid(t *testing.T) {
	t.Parallel()
	img := sample(t, write(t, "program", 0o700, time.Now()))
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	c := must(img.ConfigFile())
	if got := fmt.Sprint(c.OS, c.Architecture, c.Config.User, c.Config.Entrypoint, c.Config.Env, c.Config.Labels, c.Created.Unix()); got != "linuxamd6465532:65532[/bin/program] [PATH=/bin] map[a:1 b:2] 0" {
		t.Errorf("configuration %s", got)
	}
}

// What an unpacker finds: every folder, no owner but root, no time, no mode of this machine's.
func TestLayerSaysWhatWasAsked(t *testing.T) {
	t.Parallel()
	img := sample(t, write(t, "program", 0o600, time.Now()))
	var got []string
	for _, l := range must(img.Layers()) {
		r := must(l.Uncompressed())
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%c %o %d:%d %d %s %q %q", h.Typeflag, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), h.Name, h.Linkname, must(io.ReadAll(tr))))
		}
		r.Close()
	}
	want := []string{
		`5 755 0:0 0 etc/ "" ""`, `0 644 0:0 0 etc/passwd "" "root\n"`,
		`5 755 0:0 0 bin/ "" ""`, `2 777 0:0 0 bin/link "program" ""`, `0 755 0:0 0 bin/program "" "program"`,
		`5 755 0:0 0 cache/ "" ""`, `0 644 0:0 4102444800 cache/old "" "x"`, `5 1777 0:0 0 tmp/ "" ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The same content is the same image, whatever else its files are; other content is another.
func TestSameFilesSameBytes(t *testing.T) {
	t.Parallel()
	archive := func(program string) []byte {
		path := filepath.Join(t.TempDir(), "a.tar")
		must(image.WriteArchive(path, "localhost/a:1", sample(t, program)))
		return must(os.ReadFile(path))
	}
	one := archive(write(t, "program", 0o700, time.Unix(1e9, 0)))
	two := archive(write(t, "program", 0o644, time.Now().In(time.FixedZone("far", 9*3600))))
	if !bytes.Equal(one, two) {
		t.Error("the same files are two archives")
	}
	if bytes.Equal(one, archive(write(t, "Program", 0o700, time.Unix(1e9, 0)))) {
		t.Error("other files are the same archive")
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "a.tar")
	one, two := sample(t, write(t, "one", 0o700, time.Now())), sample(t, write(t, "two", 0o700, time.Now()))
	for _, step := range []struct {
		name   string
		before func()
		tag    string
		img    v1.Image
		wrote  bool
	}{
		{"none is there", nil, "localhost/a:1", one, true},
		{"it is there", nil, "localhost/a:1", one, false},
		{"under another tag", nil, "localhost/a:2", one, true},
		{"another image", nil, "localhost/a:2", two, true},
		{"what is there is no archive", func() { os.WriteFile(path, []byte("half"), 0o644) }, "localhost/a:2", two, true},
	} {
		if step.before != nil {
			step.before()
		}
		wrote, err := image.WriteArchive(path, step.tag, step.img)
		if err != nil || wrote != step.wrote {
			t.Fatalf("%s: wrote %v, %v; want %v", step.name, wrote, err, step.wrote)
		}
		there := must(image.ReadArchive(path))
		if err := validate.Image(there); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got, want := must(there.Digest()), must(step.img.Digest()); got != want {
			t.Errorf("%s: the archive's digest is %s, the image's is %s", step.name, got, want)
		}
	}
	if info := must(os.Stat(path)); info.Mode() != 0o644 {
		t.Errorf("the archive has mode %s", info.Mode())
	}
}

// An archive that could not be written leaves what was there, and nothing beside it.
func TestArchiveThatFails(t *testing.T) {
	t.Parallel()
	source := write(t, "one", 0o700, time.Now())
	path := filepath.Join(t.TempDir(), "a.tar")
	must(image.WriteArchive(path, "localhost/a:1", sample(t, source)))
	before := must(os.ReadFile(path))
	changed := write(t, "two", 0o700, time.Now())
	img := sample(t, changed)
	os.Remove(changed)
	if _, err := image.WriteArchive(path, "localhost/a:1", img); err == nil || !strings.Contains(err.Error(), "/bin/program") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if !bytes.Equal(before, must(os.ReadFile(path))) {
		t.Error("the old archive is gone")
	}
	if left := must(os.ReadDir(filepath.Dir(path))); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	a := image.File{Path: "/a", Data: []byte("a")}
	for _, c := range []struct {
		name, want string
		config     image.Config
		files      []image.File
	}{
		{"no platform", "needs a platform", image.Config{}, nil},
		{"environment", `environment "PATH"`, image.Config{Platform: amd64, Env: []string{"PATH"}}, nil},
		{"relative", `file "a"`, image.Config{Platform: amd64}, []image.File{{Path: "a"}}},
		{"upwards", `file "/a/../../b"`, image.Config{Platform: amd64}, []image.File{{Path: "/a/../../b"}}},
		{"root", `file "/"`, image.Config{Platform: amd64}, []image.File{image.Dir("/", 0o755)}},
		{"twice", "/a is there twice", image.Config{Platform: amd64}, []image.File{a, a}},
		{"below a file", "/a/b lies below /a", image.Config{Platform: amd64}, []image.File{a, {Path: "/a/b"}}},
		{"below a link", "/l/b lies below /l", image.Config{Platform: amd64}, []image.File{image.Symlink("/l", "a"), {Path: "/l/b"}}},
		{"device", "/d is a D", image.Config{Platform: amd64}, []image.File{{Path: "/d", Mode: fs.ModeDevice | 0o644}}},
		{"no source", "/a into a layer: open /nowhere", image.Config{Platform: amd64}, []image.File{{Path: "/a", Source: "/nowhere"}}},
		{"folder as source", "/a into a layer: /tmp is no file", image.Config{Platform: amd64}, []image.File{{Path: "/a", Source: "/tmp"}}},
	} {
		if _, err := image.New(c.config, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"keep/empty", "drop"} {
		must(0, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	for name, mode := range map[string]fs.FileMode{"keep/program": 0o700, "keep/text": 0o600, "drop/text": 0o600} {
		must(0, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	must(0, os.Symlink("text", filepath.Join(dir, "keep/link")))
	must(0, os.Symlink(dir, filepath.Join(dir, "self")))
	var got []string
	for _, f := range must(image.Folder(filepath.Join(dir, "self"), "/at", func(rel string, _ fs.DirEntry) bool { return rel != "drop" && rel != "self" })) {
		got = append(got, fmt.Sprint(f.Mode, " ", f.Path, " ", f.Link))
	}
	want := []string{"drwxr-xr-x /at ", "drwxr-xr-x /at/keep ", "drwxr-xr-x /at/keep/empty ", "Lrwxrwxrwx /at/keep/link text", "-rwxr-xr-x /at/keep/program ", "-rw-r--r-- /at/keep/text "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
