//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/sys/unix"

	"orchard/images/image"
	unpack "orchard/internal/sandbox/local/image"
)

// build makes images with the arguments given and returns what it printed.
func build(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func archiveOf(t *testing.T, dist, name string) v1.Image {
	t.Helper()
	img, err := image.ReadArchive(filepath.Join(dist, "images", name+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// unpacked is the root of an archive's image, where programs can be run, with the devices that
// git and go want.
func unpacked(t *testing.T, dist, name string) *unpack.Image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to run programs in another root")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755) // users other than root come by
	}
	store, err := unpack.Open(filepath.Join(dir, "store"), true)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Get(t.Context(), filepath.Join(dist, "images", name+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "store"), 0o755)
	os.Chmod(filepath.Dir(img.Root), 0o755)
	if err := errors.Join(os.MkdirAll(filepath.Join(img.Root, "dev"), 0o755), os.MkdirAll(filepath.Join(img.Root, "proc"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, minor := range map[string]uint32{"null": 3, "urandom": 9} {
		path := filepath.Join(img.Root, "dev", name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(1, minor))), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// inside is a command in an unpacked image, as the user of a number. /proc is there for that command alone.
func inside(ctx context.Context, img *unpack.Image, id int, argv ...string) *exec.Cmd {
	const script = `/bin/mount -t proc proc "$0/proc" && exec /usr/sbin/chroot --userspec="$1:$1" "$0" "${@:2}"`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "/bin/bash", "-c", script, img.Root, strconv.Itoa(id)}, argv...)...)
	cmd.Env = append([]string{}, img.Env...)
	return cmd
}

func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if rel := strings.TrimPrefix(path, root); err == nil && rel != "" && !strings.HasPrefix(rel, "/dev") && rel != "/proc" {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The agent's image is its program and what that is made of; it says what it is, and runs as nobody.
func TestAgentImage(t *testing.T) {
	t.Parallel()
	dist := t.TempDir()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	printed := build(t, "-dist", dist, "-version", "1.2.0", "-revision", revision, "agent")
	img := archiveOf(t, dist, "agent")
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("localhost/orchard/agent:1.2.0 %s new\n", digest); printed != want {
		t.Errorf("printed %q, want %q", printed, want)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{User: "65532:65532", Entrypoint: []string{"/orchard-agent"}, Labels: map[string]string{
		"org.opencontainers.image.title":       "orchard-agent",
		"org.opencontainers.image.description": "The program inside every sandbox of Orchard.",
		"org.opencontainers.image.version":     "1.2.0",
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}}
	if diff := cmp.Diff(want, c.Config); diff != "" {
		t.Error(diff)
	}
	beside, err := os.ReadFile(filepath.Join(dist, "images", "agent.spdx.json"))
	if err != nil || !json.Valid(beside) {
		t.Errorf("SBOM: %v", err)
	}

	root := unpacked(t, dist, "agent")
	if diff := cmp.Diff([]string{"/orchard-agent", "/sbom.spdx.json"}, tree(t, root.Root)); diff != "" {
		t.Error(diff)
	}
	within, err := os.ReadFile(filepath.Join(root.Root, sbomPath))
	if err != nil || !bytes.Equal(within, beside) {
		t.Errorf("the SBOM in the image is not the one beside it (%v)", err)
	}
	out, err := inside(t.Context(), root, 65532, "/orchard-agent", "--version").CombinedOutput()
	if want := "orchard-agent 1.2.0 " + revision + "\n"; err != nil || string(out) != want {
		t.Errorf("--version: %v, %q, want %q", err, out, want)
	}
}

// Nothing is made anew when nothing changed: neither the program nor the archive.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	dist := t.TempDir()
	build(t, "-dist", dist, "agent")
	state := func() (all []string) {
		for _, p := range []string{"images/agent.tar", "images/agent.spdx.json", "programs/linux-" + host().Architecture + "/orchard-agent"} {
			info, err := os.Stat(filepath.Join(dist, p))
			if err != nil {
				t.Fatal(err)
			}
			// What is made anew is another file; go build dates one that it left.
			all = append(all, fmt.Sprint(p, " ", info.Sys().(*syscall.Stat_t).Ino))
		}
		return all
	}
	before := state()
	if printed := build(t, "-dist", dist, "agent"); !strings.HasSuffix(printed, " unchanged\n") {
		t.Errorf("printed %q", printed)
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Error(diff)
	}
	if printed := build(t, "-dist", dist, "-version", "2", "agent"); !strings.HasSuffix(printed, " new\n") {
		t.Errorf("printed %q for another version", printed)
	}
}

// elsewhere builds an image in a copy of the repository: another folder, time zone and umask,
// nothing built before, and env besides.
func elsewhere(t *testing.T, image string, env ...string) (dist string) {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{"agent", "cmd", "internal", "images"} {
		if err := os.CopyFS(filepath.Join(top, dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join("../..", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(top, file), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask 077 && go run ./images/build -version 3 "+image)
	cmd.Dir, cmd.Env = top, append(os.Environ(), append([]string{"TZ=Asia/Tokyo"}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(top, "dist")
}

// sameBytes compares what two builds left for users.
func sameBytes(t *testing.T, one, two, name string) {
	t.Helper()
	for _, file := range []string{name + ".tar", name + ".spdx.json"} {
		a, err := os.ReadFile(filepath.Join(one, "images", file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(two, "images", file))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a, b) {
			t.Errorf("%s: %d bytes here and %d there, and not the same", file, len(a), len(b))
		}
	}
}

func TestSameBytesElsewhere(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	build(t, "-dist", here, "-version", "3", "agent")
	sameBytes(t, here, elsewhere(t, "agent"), "agent")
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "there are agent, controller, stage, toolchain"},
		{"agnet", `no image "agnet"; there are agent, controller`},
		{"-version 1+2 agent", `version "1+2"`},
		{"-revision main agent", `revision "main"`},
		{"-push 127.0.0.1:1/x -platforms windows/amd64 agent", `platform "windows/amd64"`},
		{"-push 127.0.0.1:1/x -platforms linux/amd64,linux/amd64 agent", "named twice"},
		{"-push 127.0.0.1:1/x -platforms linux/riscv64 toolchain", "image toolchain for linux/riscv64: it is made of this machine's programs"},
	} {
		err := run(t.Context(), append([]string{"-dist", t.TempDir()}, strings.Fields(c.args)...), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.want)
		}
	}
}
