//go:build linux

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"orchard/internal/sandbox"
)

func TestEverySource(t *testing.T) {
	t.Parallel()
	img := build(t, v1.Config{Env: []string{"A=b"}, WorkingDir: "/w", User: "7:8"}, layer(t, entry{name: "f", data: "x"}))
	docker := archive(t, img)

	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{refAnnotation: "one"})); err != nil {
		t.Fatal(err)
	}
	ociTar := filepath.Join(t.TempDir(), "layout.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", ociTar, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gz := filepath.Join(t.TempDir(), "image.tar.gz")
	if out, err := exec.Command("sh", "-c", "gzip -c "+docker+" > "+gz).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	remoteName := strings.TrimPrefix(server.URL, "http://") + "/team/image:one"
	ref, err := name.ParseReference(remoteName)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}

	want, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{
		docker, "docker-archive:" + docker, "docker-archive:" + docker + ":orchard.test/image:one", gz,
		dir, "oci:" + dir, "oci:" + dir + ":one", ociTar, "oci-archive:" + ociTar + ":one", remoteName,
	} {
		t.Run(strings.ReplaceAll(source, "/", "_"), func(t *testing.T) {
			got := get(t, store(t), source)
			if got.Digest != want.String() || got.Workdir != "/w" || got.User != "7:8" || len(got.Env) != 1 {
				t.Errorf("got %+v", got)
			}
			if f := tree(t, got.Root); f["f"] != "x" {
				t.Errorf("files %v", f)
			}
		})
	}
}

func TestRefusedImages(t *testing.T) {
	t.Parallel()
	other := build(t, v1.Config{})
	file, _ := other.ConfigFile()
	file = file.DeepCopy()
	file.Architecture = "s390x"
	other, err := mutate.ConfigFile(other, file)
	if err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage.tar")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no archive", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	good := archive(t, build(t, v1.Config{}, layer(t, entry{name: "f", data: strings.Repeat("content", 1000)})))
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.tar")
	if err := os.WriteFile(cut, raw[:len(raw)/4], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, ref, says string }{
		{"no file", "/no/such.tar", "no such file"},
		{"no archive", garbage, "not an image archive"},
		{"half an archive", cut, ""},
		{"an empty folder", t.TempDir(), "OCI layout"},
		{"another machine's", archive(t, other), "s390x"},
		{"no name", "Not A Name", "image name"},
		{"not in the registry", strings.TrimPrefix(server.URL, "http://") + "/nope:none", "registry"},
		{"no such tag in an archive", "docker-archive:" + good + ":other/name:x", "docker archive"},
	} {
		var refused *sandbox.Refused
		if _, err := store(t).Get(t.Context(), c.ref); !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A registry that does not answer may answer later.
	down := strings.TrimPrefix(server.URL, "http://") + "/down:x"
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var refused *sandbox.Refused
	if _, err := store(t).Get(ctx, down); err == nil || errors.As(err, &refused) {
		t.Errorf("a registry that is down: %v", err)
	}
}

// TestCorruptLayer flips a byte of a layer: the image is refused and nothing is kept.
func TestCorruptLayer(t *testing.T) {
	t.Parallel()
	secret := "exactly-this-content"
	path := archive(t, build(t, v1.Config{}, layer(t, entry{name: "f", data: secret})))
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	layers, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(layers) != 1 {
		t.Fatalf("%v, %v", layers, err)
	}
	change := fmt.Sprintf("gunzip -c %s | sed s/%s/another-content-here/ | gzip > %s/new && mv %s/new %s && cd %s && tar -cf %s *",
		layers[0], secret, dir, dir, layers[0], dir, path)
	if out, err := exec.Command("sh", "-c", change).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := store(t)
	var refused *sandbox.Refused
	if _, err := s.Get(t.Context(), path); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "sha256") {
		t.Fatalf("a changed layer: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil || len(left) != 1 { // the lock
		t.Errorf("left %v, %v", left, err)
	}
}

func TestUnpackOnce(t *testing.T) {
	t.Parallel()
	path := archive(t, build(t, v1.Config{}, layer(t, entry{name: "f", data: "x"})))
	dir := t.TempDir()
	// What somebody left who was killed halfway.
	hash := get(t, store(t), path).Digest[len("sha256:"):]
	if err := os.MkdirAll(filepath.Join(dir, hash+".tmp", "rootfs", "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(dir, os.Geteuid() == 0) // as another process would
			if err != nil {
				t.Error(err)
				return
			}
			img, err := s.Get(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(img.Root, "half")); err == nil {
				t.Error("half an image was taken for a whole one")
			}
		})
	}
	wg.Wait()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	passwd := layer(t, entry{name: "etc/passwd", data: "root:x:0:0::/:\napp:x:1000:1001::/app:/bin/sh\n"}, entry{name: "etc/group", data: "web:x:33:\n"})
	for _, c := range []struct {
		user     string
		uid, gid int
		fails    bool
	}{
		{"", 0, 0, false}, {"root", 0, 0, false}, {"app", 1000, 1001, false}, {"1000", 1000, 1001, false}, {"app:web", 1000, 33, false},
		{"55", 55, 0, false}, {"55:66", 55, 66, false}, {"nosuch", 0, 0, true}, {"app:nosuch", 0, 0, true}, {"70000", 0, 0, true}, {"-1", 0, 0, true},
	} {
		img := get(t, store(t), archive(t, build(t, v1.Config{User: c.user}, passwd)))
		uid, gid, err := img.IDs()
		if uid != c.uid || gid != c.gid || (err != nil) != c.fails {
			if !c.fails || err == nil {
				t.Errorf("user %q: %d:%d, %v", c.user, uid, gid, err)
			}
		}
	}
}
