package agent

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/agent/wire"
)

// Whatever an archive says, nothing outside of its folder changes, and no link that leads
// out is left behind.
func FuzzUnpack(f *testing.F) {
	f.Add("a", "b", byte(tar.TypeReg), byte(tar.TypeSymlink), "..")
	f.Add("d/x", "d/x/y", byte(tar.TypeSymlink), byte(tar.TypeReg), "../../out")
	f.Add("l/./s", "h", byte(tar.TypeSymlink), byte(tar.TypeLink), "l/s")
	f.Add("//a", "./../b", byte(tar.TypeDir), byte(tar.TypeDir), "/")
	f.Fuzz(func(t *testing.T, first, second string, firstType, secondType byte, target string) {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		for _, h := range []tar.Header{{Name: first, Typeflag: firstType}, {Name: second, Typeflag: secondType}} {
			h.Mode = 0o755
			if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
				h.Linkname = target
			}
			if w.WriteHeader(&h) != nil {
				return
			}
		}
		w.Close()
		top := t.TempDir()
		if err := os.MkdirAll(top+"/out/in", 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(top + "/out/in")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = (&unpacking{root: root, report: wire.TarReport{}}).run(&packed)
		for _, dir := range []string{top, top + "/out"} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Fatalf("%s holds %v, %v", dir, entries, err)
			}
		}
		inside, err := filepath.EvalSymlinks(top + "/out/in")
		if err != nil {
			t.Fatal(err)
		}
		_ = filepath.WalkDir(inside, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type() == os.ModeSymlink {
				if at, err := filepath.EvalSymlinks(path); err == nil && at != inside && !strings.HasPrefix(at, inside+"/") {
					t.Errorf("%s leads to %s", path, at)
				}
			}
			return nil
		})
	})
}

func FuzzRing(f *testing.F) {
	f.Add([]byte("hello, world"), uint8(3), uint8(5))
	f.Fuzz(func(t *testing.T, text []byte, size, piece uint8) {
		r := ring{size: int(size)%16 + 1}
		step := int(piece)%32 + 1
		for rest := text; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			r.write(rest[:min(step, len(rest))])
		}
		got := make([]byte, len(text))
		got = got[:r.read(got, r.start())]
		if r.total != int64(len(text)) || !bytes.Equal(got, text[len(text)-min(len(text), r.size):]) {
			t.Fatalf("kept %q of %q, size %d", got, text, r.size)
		}
	})
}
