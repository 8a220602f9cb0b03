//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/validate"

	unpack "orchard/internal/sandbox/local/image"
)

// soak is for tests that compile much.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("ORCHARD_SOAK") != "1" {
		t.Skip("takes minutes: ORCHARD_SOAK=1")
	}
}

// With nothing compiled before, every byte is made anew.
func TestSameBytesWithoutACache(t *testing.T) {
	soak(t)
	here := t.TempDir()
	build(t, "-dist", here, "-version", "3", "agent")
	start := time.Now()
	there := elsewhere(t, "agent", "GOCACHE="+t.TempDir())
	t.Logf("took %s", time.Since(start).Round(time.Second))
	sameBytes(t, here, there, "agent")
}

// The stage image does what stages do: it packs repositories with the git in it, where nothing
// can be written but in /tmp, and there is no shell.
func TestStageImage(t *testing.T) {
	soak(t)
	dist := t.TempDir()
	build(t, "-dist", dist, "stage")
	if err := validate.Image(archiveOf(t, dist, "stage")); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dist, "images", "stage.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"./orchard"`, `"./usr/bin/git"`, `"name": "git"`, `"name": "libc6"`, `"name": "github.com/minio/minio-go/v7"`, `"name": "golang.org/x/crypto/x509roots/fallback"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the SBOM lacks %s", want)
		}
	}
	root := unpacked(t, dist, "stage")
	for _, path := range tree(t, root.Root) {
		switch filepath.Base(path) {
		case "sh", "bash", "dash", "busybox":
			t.Errorf("there is a shell: %s", path)
		}
	}
	out, err := inside(t.Context(), root, 65532, "/orchard", "import", "--in", "examples", "--out", "/tmp/data").CombinedOutput()
	if err != nil {
		t.Errorf("import: %v: %s", err, out)
	}
	if out, err := inside(t.Context(), root, 65532, "/orchard", "dataset", "ls", "/tmp/data").CombinedOutput(); err != nil || !strings.Contains(string(out), "data") {
		t.Errorf("dataset ls: %v: %s", err, out)
	}
}

// A first test of a Go task takes a moment, for root and for anybody else: all of the standard
// library is compiled already. It shows in what go says it runs.
func TestToolchainImage(t *testing.T) {
	soak(t)
	dist := t.TempDir()
	build(t, "-dist", dist, "toolchain")
	if got := build(t, "-dist", dist, "toolchain"); !strings.HasSuffix(got, " unchanged\n") {
		t.Errorf("the second time: %s", got)
	}
	root := unpacked(t, dist, "toolchain")
	testTools(t.Context(), t, root)
	repos := filepath.Join(root.Root, "repos")
	if err := os.CopyFS(repos, os.DirFS("../../examples/tasks/repos")); err != nil {
		t.Fatal(err)
	}
	os.Chmod(repos, 0o755)
	for _, task := range []string{"cronexpr", "intervals", "jsonptr", "loadcache", "ratelimit", "router", "ttlcache"} {
		for id, who := range map[int]string{0: "root", 1000: "user"} {
			t.Run(task+" as "+who, func(t *testing.T) {
				testTask(t.Context(), t, root, id, task)
			})
		}
	}
}

func testTask(ctx context.Context, t *testing.T, root *unpack.Image, id int, task string) {
	bash := func(script string) (string, error) {
		out, err := inside(ctx, root, id, "/usr/bin/bash", "-ec", "cd /tmp && "+script).CombinedOutput()
		return string(out), err
	}
	folder := task + "-$(id -u)"
	if out, err := bash("git init -q " + folder + " && git -C " + folder + " fast-import --quiet </repos/" + task + ".fi && git -C " + folder + " checkout -q main"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start := time.Now()
	out, err := bash("cd " + folder + " && go test -x -json -count=1 ./...")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	compiled := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, "/compile -o ") && strings.Contains(line, "-std") {
			compiled++
		}
	}
	if compiled > 0 {
		t.Errorf("%d packages of the standard library were compiled", compiled)
	}
	t.Logf("go test took %s", time.Since(start).Round(100*time.Millisecond))
}

// testTools runs what scripts expect of a machine.
func testTools(ctx context.Context, t *testing.T, root *unpack.Image) {
	script := `cd /tmp && printf 'b\na\n' >x && sort x | grep -c a && sed s/a/c/ x | awk '{print NR, $0}' && find . -name x && cp x y && echo d >>y &&
		{ diff -u x y >p || true; } && patch -s x p && cmp x y && tar -czf z.tgz x && gzip -dc z.tgz | tar -t && command -v go gofmt git sh xargs`
	out, err := inside(ctx, root, 0, "/usr/bin/bash", "-ec", script).CombinedOutput()
	if want := "1\n1 b\n2 c\n./x\nx\n"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}
