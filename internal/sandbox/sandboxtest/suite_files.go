package sandboxtest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox"
)

func suiteFiles(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	noise := make([]byte, 24<<20)
	rand.NewChaCha8([32]byte{9}).Read(noise)
	for name, content := range map[string][]byte{
		"empty": {}, "one": {0}, "18k": bytes.Repeat([]byte("x\n"), 9<<10), "deep/er/still": []byte("d"), "24m": noise,
		"a é 报告 'q\" #?%2F\n": []byte("odd name"), "-rf": []byte("dash"),
	} {
		path := "/tmp/files/" + name
		// A reader that can seek, and one that cannot.
		for _, r := range []io.Reader{bytes.NewReader(content), io.MultiReader(bytes.NewReader(content))} {
			if err := box.Put(t.Context(), path, r, int64(len(content)), 0o640); err != nil {
				t.Fatalf("put %q: %v", name, err)
			}
		}
		f, err := box.Get(t.Context(), path)
		if err != nil {
			t.Fatalf("get %q: %v", name, err)
		}
		got, err := io.ReadAll(f)
		f.Close()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%q: %d bytes came back as %d, %v", name, len(content), len(got), err)
		}
	}
	if r := run(t, box, sandbox.Command{Shell: "stat -c %a /tmp/files/one; wc -c < /tmp/files/24m"}); string(r.Stdout) != "640\n25165824\n" {
		t.Errorf("mode and size inside: %q %q", r.Stdout, r.Stderr)
	}
	if err := box.Put(t.Context(), "/tmp/files/one", strings.NewReader("new"), 3, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := run(t, box, sandbox.Command{Argv: []string{"cat", "/tmp/files/one"}}); string(r.Stdout) != "new" {
		t.Errorf("a file put again is %q", r.Stdout)
	}
}

func suiteFileErrors(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	if _, err := box.Get(t.Context(), "/tmp/nope"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/tmp/nope") {
		t.Errorf("get of nothing: %v", err)
	}
	if _, err := box.List(t.Context(), "/tmp/nope"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("list of nothing: %v", err)
	}
	if _, err := box.Get(t.Context(), "/tmp"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of a folder: %v", err)
	}
	// A reader that has less than it should, or breaks, leaves no file.
	for name, r := range map[string]io.Reader{
		"short, seekable": strings.NewReader("abc"), "short": io.MultiReader(strings.NewReader("abc")),
		"large and short": io.MultiReader(bytes.NewReader(make([]byte, 3<<20))),
	} {
		size := int64(10)
		if strings.HasPrefix(name, "large") {
			size = 4 << 20
		}
		if err := box.Put(t.Context(), "/tmp/half", r, size, 0o644); err == nil {
			t.Errorf("%s: put succeeded", name)
		}
		if _, err := box.Get(t.Context(), "/tmp/half"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: half a file is there: %v", name, err)
		}
	}
}

func suiteList(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	run(t, box, sandbox.Command{Shell: "mkdir -p /tmp/l/sub && cd /tmp/l && printf 12345 > b && : > a && ln -s nowhere dangling"})
	got, err := box.List(t.Context(), "/tmp/l")
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, f := range got {
		names += f.Name + " "
		switch f.Name {
		case "b":
			if f.Size != 5 || f.Dir || time.Since(f.Modified).Abs() > time.Hour {
				t.Errorf("b is %+v", f)
			}
		case "sub":
			if !f.Dir {
				t.Errorf("sub is %+v", f)
			}
		}
	}
	if names != "a b dangling sub " {
		t.Errorf("names are %q", names)
	}
}
