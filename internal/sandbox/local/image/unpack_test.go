//go:build linux

package image

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"pgregory.net/rapid"

	"orchard/internal/sandbox"
)

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   map[string]string
	}{
		{"later layers win", [][]entry{{{name: "a", data: "1"}, {name: "b", data: "1"}}, {{name: "a", data: "2"}}},
			map[string]string{"a": "2", "b": "1"}},
		{"parents that no entry names", [][]entry{{{name: "x/y/z", data: "1"}}},
			map[string]string{"x": "folder", "x/y": "folder", "x/y/z": "1"}},
		{"a whiteout", [][]entry{{{name: "d/a", data: "1"}, {name: "d/b", data: "1"}}, {{name: "d/.wh.a"}}},
			map[string]string{"d": "folder", "d/b": "1"}},
		{"a whiteout of a folder", [][]entry{{{name: "d/a/b", data: "1"}}, {{name: ".wh.d"}}}, map[string]string{}},
		{"a whiteout and its replacement, in either order", [][]entry{{{name: "a", data: "1"}, {name: "b", data: "1"}},
			{{name: ".wh.a"}, {name: "a", data: "2"}, {name: "b", data: "2"}, {name: ".wh.b"}}}, map[string]string{"a": "2", "b": "2"}},
		{"a whiteout of nothing", [][]entry{{{name: "no/.wh.thing"}, {name: ".wh.x"}}}, map[string]string{}},
		{"an opaque folder, marked last", [][]entry{{{name: "d/old", data: "1"}, {name: "d/s/old", data: "1"}},
			{{name: "d/new", data: "2"}, {name: "d/s/new", data: "2"}, {name: "d/.wh..wh..opq"}}},
			map[string]string{"d": "folder", "d/new": "2", "d/s": "folder", "d/s/new": "2"}},
		{"an opaque folder, marked first", [][]entry{{{name: "d/old", data: "1"}}, {{name: "d/"}, {name: "d/.wh..wh..opq"}, {name: "d/new", data: "2"}}},
			map[string]string{"d": "folder", "d/new": "2"}},
		{"another union's notes", [][]entry{{{name: ".wh..wh.plnk"}, {name: "a", data: "1"}}}, map[string]string{"a": "1"}},
		{"a folder for a file and a file for a folder", [][]entry{{{name: "a", data: "1"}, {name: "b/c", data: "1"}}, {{name: "a/"}, {name: "b", data: "2"}}},
			map[string]string{"a": "folder", "b": "2"}},
		{"a folder for a link", [][]entry{{{name: "real/f", data: "1"}, {name: "d", link: "real"}}, {{name: "d/"}, {name: "d/g", data: "2"}}},
			map[string]string{"real": "folder", "real/f": "1", "d": "folder", "d/g": "2"}},
		{"through an absolute link inside", [][]entry{{{name: "run/"}, {name: "var/run", link: "/run"}}, {{name: "var/run/f", data: "1"}}},
			map[string]string{"run": "folder", "run/f": "1", "var": "folder", "var/run": "-> /run"}},
		{"a hard link", [][]entry{{{name: "a", data: "1"}, {name: "d/b", link: "a", kind: tar.TypeLink}}}, map[string]string{"a": "1", "d": "folder", "d/b": "1"}},
		{"a hard link to a lower layer's file", [][]entry{{{name: "a", data: "1"}}, {{name: "b", link: "/a", kind: tar.TypeLink}}}, map[string]string{"a": "1", "b": "1"}},
		{"devices are left out", [][]entry{{{name: "dev/sda", kind: tar.TypeBlock}, {name: "dev/mem", kind: tar.TypeChar}, {name: "p", kind: tar.TypeFifo}}},
			map[string]string{"dev": "folder", "p": "p---------"}},
		{"names from the root and with dots", [][]entry{{{name: "/a", data: "1"}, {name: "./b", data: "1"}, {name: "./"}}}, map[string]string{"a": "1", "b": "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var layers []v1.Layer
			for _, entries := range c.layers {
				layers = append(layers, layer(t, entries...))
			}
			got := tree(t, get(t, store(t), archive(t, build(t, v1.Config{}, layers...))).Root)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestNoEscape unpacks archives that name the world outside. Whatever comes of it, the
// bait is untouched and nothing new lies beside it.
func TestNoEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		entries func(bait string) []entry
	}{
		{"dots", func(string) []entry { return []entry{{name: "../../../../../../../../tmp/orchard-escaped", data: "x"}} }},
		{"an absolute name", func(b string) []entry { return []entry{{name: b, data: "x"}} }},
		{"a link to the outside, then a file through it", func(b string) []entry {
			return []entry{{name: "d", link: filepath.Dir(b)}, {name: "d/bait", data: "x"}}
		}},
		{"a relative link, then a file through it", func(string) []entry {
			return []entry{{name: "d", link: "../../../../.."}, {name: "d/bait", data: "x"}, {name: "d/tmp/orchard-escaped", data: "x"}}
		}},
		{"links in a chain", func(b string) []entry {
			return []entry{{name: "a", link: "b"}, {name: "b", link: filepath.Dir(b)}, {name: "a/bait", data: "x"}}
		}},
		{"a link in the file's own place", func(b string) []entry { return []entry{{name: "f", link: b}, {name: "f", data: "x"}} }},
		{"a link as a folder's place", func(b string) []entry {
			return []entry{{name: "d", link: filepath.Dir(b)}, {name: "d/", mode: 0o700}, {name: "d/bait", data: "x"}}
		}},
		{"a hard link to the outside", func(b string) []entry {
			return []entry{{name: "f", link: b, kind: tar.TypeLink}, {name: "f", data: "x"}}
		}},
		{"a hard link through a link", func(b string) []entry {
			return []entry{{name: "d", link: filepath.Dir(b)}, {name: "f", link: "d/bait", kind: tar.TypeLink}}
		}},
		{"a whiteout through a link", func(b string) []entry {
			return []entry{{name: "d", link: filepath.Dir(b)}, {name: "d/.wh.bait"}}
		}},
		{"an opaque mark through a link", func(b string) []entry {
			return []entry{{name: "d", link: filepath.Dir(b)}, {name: "d/.wh..wh..opq"}}
		}},
		{"a whiteout of the parent", func(string) []entry { return []entry{{name: "d/"}, {name: "d/.wh..."}, {name: "d/.wh.."}} }},
		{"a folder's mode through a link", func(b string) []entry {
			return []entry{{name: "d/", mode: 0o777}, {name: "d", link: filepath.Dir(b)}}
		}},
		{"magic links", func(b string) []entry {
			return []entry{{name: "d", link: "/proc/self/root" + filepath.Dir(b)}, {name: "d/bait", data: "x"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outside := t.TempDir()
			bait := filepath.Join(outside, "bait")
			if err := os.WriteFile(bait, []byte("untouched"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(outside, 0o750); err != nil {
				t.Fatal(err)
			}
			s := store(t)
			img, err := s.Get(t.Context(), archive(t, build(t, v1.Config{}, layer(t, c.entries(bait)...))))
			var refused *sandbox.Refused
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("an evil image is no passing trouble: %v", err)
			}
			raw, err := os.ReadFile(bait)
			info, _ := os.Stat(outside)
			left, _ := os.ReadDir(outside)
			if err != nil || string(raw) != "untouched" || info.Mode().Perm() != 0o750 || len(left) != 1 {
				t.Errorf("outside: %q, %v, %v, %v", raw, err, info.Mode(), left)
			}
			if st, err := os.Stat(bait); err != nil || st.Sys().(*syscall.Stat_t).Nlink != 1 {
				t.Error("the bait was linked to")
			}
			if _, err := os.Lstat("/tmp/orchard-escaped"); err == nil {
				t.Error("a file escaped to /tmp")
			}
			if img != nil && len(tree(t, img.Root)) == 0 && strings.Contains(c.name, "absolute") {
				t.Error("the file landed nowhere")
			}
		})
	}
}

func TestModesAndOwners(t *testing.T) {
	t.Parallel()
	root := get(t, store(t), archive(t, build(t, v1.Config{},
		layer(t, entry{name: "d/", mode: 0o555, uid: 7}, entry{name: "d/f", data: "x", mode: 0o4711, uid: 70000}, entry{name: "t/", mode: 0o1777}),
		layer(t, entry{name: "d/g", data: "y", mode: 0o600, uid: 9}),
	))).Root
	rooted := os.Geteuid() == 0
	for _, c := range []struct {
		name string
		mode os.FileMode
		uid  uint32
	}{
		{"d", map[bool]os.FileMode{true: 0o555, false: 0o755}[rooted] | os.ModeDir, 7},
		{"d/f", 0o711 | os.ModeSetuid, nobody}, {"d/g", 0o600, 9}, {"t", 0o777 | os.ModeDir | os.ModeSticky, 0},
	} {
		info, err := os.Lstat(filepath.Join(root, c.name))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; info.Mode() != c.mode || (rooted && uid != c.uid) {
			t.Errorf("%s: %v of %d, want %v of %d", c.name, info.Mode(), uid, c.mode, c.uid)
		}
		if info.Name() == "g" && info.ModTime().Unix() != 1e9 {
			t.Errorf("%s is of %v", c.name, info.ModTime())
		}
	}
}

// TestAnyLayersStayInside draws layers of a few colliding names, links among them.
func TestAnyLayersStayInside(t *testing.T) {
	outside := t.TempDir()
	bait := filepath.Join(outside, "bait")
	if err := os.WriteFile(bait, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.Custom(func(rt *rapid.T) string {
			parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "..", ".", ".wh.a", ".wh..wh..opq", "bait"}), 1, 4).Draw(rt, "parts")
			return strings.Join(parts, "/") + rapid.SampledFrom([]string{"", "", "/"}).Draw(rt, "slash")
		})
		one := rapid.Custom(func(rt *rapid.T) entry {
			e := entry{name: name.Draw(rt, "name"), kind: rapid.SampledFrom([]byte{0, 0, tar.TypeSymlink, tar.TypeLink}).Draw(rt, "kind")}
			if e.kind != 0 {
				e.link = rapid.SampledFrom([]string{"a", "b/a", "..", "../../..", outside, bait, "/a"}).Draw(rt, "link")
			}
			return e
		})
		var layers []v1.Layer
		for range rapid.IntRange(1, 3).Draw(rt, "layers") {
			layers = append(layers, layer(t, rapid.SliceOfN(one, 0, 8).Draw(rt, "entries")...))
		}
		dir, err := os.MkdirTemp(outside, "root-")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := &Store{owners: os.Geteuid() == 0}
		s.unpackTo(t.Context(), dir, build(t, v1.Config{}, layers...)) // may be refused
		raw, err := os.ReadFile(bait)
		left, _ := os.ReadDir(outside)
		inner, _ := os.ReadDir(dir)
		info, statErr := os.Stat(bait)
		if err != nil || string(raw) != "untouched" || len(left) != 2 || len(inner) > 2 || statErr != nil || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			rt.Fatalf("outside: %q, %v, %v, %v", raw, err, left, inner)
		}
	})
}
