//go:build linux

package local

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// showProgram is the only program of the test's images: it prints where it runs, and
// does what its arguments say.
const showProgram = `package main

import ("encoding/json"; "fmt"; "os")

func main() {
	if len(os.Args) > 2 && os.Args[1] == "write" {
		if err := os.WriteFile(os.Args[2], []byte("written"), 0o644); err != nil { fmt.Println(err); os.Exit(1) }
		return
	}
	wd, _ := os.Getwd()
	read := func(p string) string { b, err := os.ReadFile(p); if err != nil { return "none" }; return string(b) }
	json.NewEncoder(os.Stdout).Encode(map[string]any{"uid": os.Getuid(), "gid": os.Getgid(), "wd": wd, "a": os.Getenv("A"), "home": os.Getenv("HOME"),
		"path": os.Getenv("PATH"), "file": read("/data/file"), "outside": read("/outside"), "resolv": read("/etc/resolv.conf")})
}
`

func buildShow(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{"go.mod": "module show\n\ngo 1.24\n", "main.go": showProgram} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "show", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "show"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// writeImage is a docker archive of one layer.
func writeImage(t *testing.T, c v1.Config, headers []tar.Header, content map[string][]byte) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		h.Size = int64(len(content[h.Name]))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write(content[h.Name])
	}
	w.Close()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, c
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag("orchard.test/show:one")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImageWithoutShell(t *testing.T) {
	t.Parallel()
	program := buildShow(t)
	secret := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(secret, []byte("leaked"), 0o644); err != nil {
		t.Fatal(err)
	}
	headers := []tar.Header{
		{Name: "bin/show", Typeflag: tar.TypeReg, Mode: 0o755},
		{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 1000, Gid: 1000},
		{Name: "data/file", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 1000, Gid: 1000},
		{Name: "outside", Typeflag: tar.TypeSymlink, Linkname: secret},
		{Name: "etc/resolv.conf", Typeflag: tar.TypeSymlink, Linkname: secret},
		{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644},
	}
	content := map[string][]byte{"bin/show": program, "data/file": []byte("from the image"), "etc/passwd": []byte("app:x:1000:1000::/data:/bin/show\n")}
	path := writeImage(t, v1.Config{Env: []string{"A=image", "PATH=/bin"}, WorkingDir: "/data", User: "app"}, headers, content)

	r := open(t, func(o *Options) { o.CacheDir = t.TempDir() })
	one := begin(t, r, sandbox.Spec{Image: path})
	show := func(id string, argv ...string) map[string]any {
		t.Helper()
		job, err := run(t.Context(), r, id, wire.ExecRequest{Argv: append([]string{"/bin/show"}, argv...)})
		if err != nil || job.ExitCode == nil || *job.ExitCode != 0 {
			t.Fatalf("%v: %+v %s%s", err, job, job.Stdout.Data, job.Stderr.Data)
		}
		var got map[string]any
		if len(job.Stdout.Data) > 0 {
			if err := json.Unmarshal(job.Stdout.Data, &got); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	want := map[string]any{
		"uid": 1000.0, "gid": 1000.0, "wd": "/data", "a": "image", "home": "/", "path": "/bin",
		"file": "from the image", "outside": "none", "resolv": "# no network\n",
	}
	if !r.ids.ranges {
		want["uid"], want["gid"], want["home"] = 0.0, 0.0, home
	}
	if diff := cmp.Diff(want, show(one.Spec.ID)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// What one sandbox writes over the image no other sees.
	show(one.Spec.ID, "write", "/data/file")
	if got := show(one.Spec.ID); got["file"] != "written" {
		t.Errorf("own file: %q", got["file"])
	}
	two := begin(t, r, sandbox.Spec{Image: path, Env: map[string]string{"A": "spec"}, Workdir: "/elsewhere"})
	if got := show(two.Spec.ID); got["file"] != "from the image" || got["a"] != "spec" || got["wd"] != "/elsewhere" {
		t.Errorf("second sandbox: %v", got)
	}
	if job, err := run(t.Context(), r, one.Spec.ID, wire.ExecRequest{Argv: []string{"/bin/show", "write", "/bin/show2"}}); err != nil || (r.ids.ranges && *job.ExitCode == 0) {
		t.Errorf("the image's user writes root's folder: %v", err)
	}
}

// TestImageThatMisleadsMounts has links where the sandbox's own folders go.
func TestImageThatMisleadsMounts(t *testing.T) {
	t.Parallel()
	program := buildShow(t)
	for _, c := range []struct{ name, link, target string }{
		{"proc", "proc", "/etc"}, {"proc outside", "proc", "../../../../../tmp"}, {"dev", "dev", "/bin"}, {"the agent", ".orchard", "/bin"},
		{"the working folder", "workspace", "/proc/self/root"}, {"etc", "etc", "/proc/1"}, {"a loop", "dev", "/dev"}, {"sys", "sys", "/nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeImage(t, v1.Config{}, []tar.Header{
				{Name: "bin/show", Typeflag: tar.TypeReg, Mode: 0o755}, {Name: "real/", Typeflag: tar.TypeDir, Mode: 0o755},
				{Name: c.link, Typeflag: tar.TypeSymlink, Linkname: c.target},
			}, map[string][]byte{"bin/show": program})
			r := open(t, func(o *Options) { o.CacheDir = t.TempDir() })
			if _, err := r.Start(t.Context(), sandbox.Spec{ID: "evil", Image: path}); err != nil {
				t.Fatal(err)
			}
			st, err := r.Wait(t.Context(), "evil")
			if err != nil {
				t.Fatal(err)
			}
			// It starts with everything in its place inside, or it does not start.
			if st.Phase != control.Ready {
				if st = ended(t, r, "evil"); st.Reason != control.ReasonRefused || !strings.Contains(st.Message, "/"+c.link) {
					t.Errorf("%s: %s", st.Reason, st.Message)
				}
				return
			}
			job, err := run(t.Context(), r, "evil", wire.ExecRequest{Argv: []string{"/bin/show"}})
			if err != nil || job.ExitCode == nil || *job.ExitCode != 0 {
				t.Errorf("%v: %+v", err, job)
			}
		})
	}
}
