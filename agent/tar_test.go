package agent_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"orchard/agent/wire"
)

// archive is a tar of headers, each with its name as content when it is a file.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (b *box) putTar(dir, query string, body []byte) (int, string, wire.TarReport) {
	b.t.Helper()
	resp, text := b.do("PUT", "/v1/tar?path="+url.QueryEscape(dir)+query, bytes.NewReader(body))
	var report wire.TarReport
	_ = json.Unmarshal(text, &report)
	return resp.StatusCode, string(text), report
}

// tree is a folder with everything that a tar must carry.
func tree(t testing.TB) (string, []string) {
	t.Helper()
	dir := t.TempDir()
	names := []string{"plain", "with space", "new\nline", "bad\xff\xfe", "-dash", "é报告", strings.Repeat("n", 255), "deep/" + strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200), "empty"}
	for i, name := range names {
		at := dir + "/" + name
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, bytes.Repeat([]byte(name), 1000*(len(names)-1-i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(dir+"/plain", os.ModeSetuid|0o751),
		os.Symlink("plain", dir+"/link"), os.Symlink("nowhere", dir+"/dangling"), os.Symlink("../plain", dir+"/deep/up"),
		os.MkdirAll(dir+"/hollow", 0o755), os.Chmod(dir+"/hollow", 0o555),
		os.MkdirAll(dir+"/sealed", 0o755), os.WriteFile(dir+"/sealed/in", []byte("x"), 0o400), os.Chmod(dir+"/sealed", 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	old := time.Unix(1_000_000_000, 123_456_789)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type() != os.ModeSymlink {
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir+"/sealed", 0o755) })
	return dir, names
}

// listing is all that is worth keeping of a folder.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		line := name + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + sha256Hex(content) + info.ModTime().UTC().String()
		case info.Mode().Type() == os.ModeSymlink:
			target, _ := os.Readlink(path)
			line += " " + target
		default:
			line += info.ModTime().UTC().String()
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTarRoundTrip(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	dir, names := tree(t)
	for _, query := range []string{"", "&gzip=1"} {
		resp, packed := b.do("GET", "/v1/tar?path="+url.QueryEscape(dir)+query, nil)
		if resp.StatusCode != 200 || resp.Trailer.Get(wire.TrailerSkipped) != "0" {
			t.Fatalf("got %d, trailer %v, %.200q", resp.StatusCode, resp.Trailer, packed)
		}
		to := b.dir + "/to" + query
		code, text, report := b.putTar(to, "", packed)
		if code != 200 || report.Files != int64(len(names)+1) || report.Links != 3 {
			t.Fatalf("got %d %s", code, text)
		}
		if got, want := listing(t, to), listing(t, dir); !slices.Equal(got, want) {
			t.Errorf("got\n%q\nwant\n%q", got, want)
		}
		if code, text, _ = b.putTar(to, "", packed); code != 200 { // over itself
			t.Errorf("again: %d %s", code, text)
		}
		// A folder that was there keeps its own mode and times.
		if got, want := listing(t, to)[1:], listing(t, dir)[1:]; !slices.Equal(got, want) {
			t.Errorf("again: got\n%q\nwant\n%q", got, want)
		}
		b.sh("chmod -R u+w '%s'", to)
	}
	// One file is an archive of one entry. The system's tar reads both.
	resp, packed := b.do("GET", "/v1/tar?path="+url.QueryEscape(dir+"/with space"), nil)
	if h, err := tar.NewReader(bytes.NewReader(packed)).Next(); resp.StatusCode != 200 || err != nil || h.Name != "with space" {
		t.Errorf("got %v %v", h, err)
	}
	if resp, _ := b.do("GET", "/v1/tar?path=/nowhere", nil); resp.StatusCode != 404 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// What is none of an archive's business is refused, and nothing is written outside.
func TestTarRefuses(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	outside := b.dir + "/outside"
	b.sh("mkdir -p in outside && ln -s ../outside in/planted && ln -s . in/dot")
	file := tar.Header{Name: "ok"}
	for name, h := range map[string][]tar.Header{
		"parent":            {file, {Name: "../outside/f"}},
		"parent within":     {file, {Name: "a/../../outside/f"}},
		"absolute":          {file, {Name: outside + "/f"}},
		"link up":           {file, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}},
		"absolute link":     {file, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}},
		"link down and up":  {file, {Name: "d/x", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "d/y", Typeflag: tar.TypeSymlink, Linkname: "x/.."}},
		"link in a link":    {file, {Name: "dot/z", Typeflag: tar.TypeSymlink, Linkname: ".."}},
		"hard link out":     {file, {Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside/f"}},
		"hard link to link": {file, {Name: "e/s", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "e/s"}},
		"through a link":    {file, {Name: "planted/f"}},
		"folder on a link":  {file, {Name: "planted/d", Typeflag: tar.TypeDir, Mode: 0o755}},
		"device":            {file, {Name: "dev", Typeflag: tar.TypeChar}},
		"fifo":              {file, {Name: "fifo", Typeflag: tar.TypeFifo}},
	} {
		code, text, _ := b.putTar(b.dir+"/in", "", archive(t, h...))
		if code < 400 || code >= 600 || !strings.Contains(text, "1 files (2 bytes)") {
			t.Errorf("%s: got %d %s", name, code, text)
		}
	}
	if left := b.sh("ls -A outside"); left != "" {
		t.Errorf("written outside: %q", left)
	}
	link := archive(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, tar.Header{Name: "l/f"})
	if code, text, _ := b.putTar(b.dir+"/in", "&links=any", link); code < 400 {
		t.Errorf("a link may lead out, a file not through it: %d %s", code, text)
	}
	if left := b.sh("ls -A outside; readlink in/l"); left != outside+"\n" {
		t.Errorf("got %q", left)
	}
}

// Wherever an upload is cut: an error that says what was written, never a success.
func TestTarCut(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	whole := archive(t, tar.Header{Name: "one"}, tar.Header{Name: strings.Repeat("long", 60)}, tar.Header{Name: "three"},
		tar.Header{Name: "last", Typeflag: tar.TypeSymlink, Linkname: "one"})
	end := len(whole) - 1024 // one block of zeros is an end
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(whole)
	z.Close()
	for cut := 0; cut <= end; cut += 256 {
		if code, text, _ := b.putTar(b.dir+"/cut", "", whole[:cut]); code != 400 || !strings.Contains(text, "were written") {
			t.Errorf("cut at %d of %d: %d %s", cut, len(whole), code, text)
		}
	}
	for cut := range zipped.Len() {
		if code, text, _ := b.putTar(b.dir+"/cut", "", zipped.Bytes()[:cut]); code != 400 {
			t.Errorf("gzip cut at %d of %d: %d %s", cut, zipped.Len(), code, text)
		}
	}
	broken := slices.Clone(zipped.Bytes())
	broken[len(broken)-6] ^= 1 // of the checksum
	if code, text, _ := b.putTar(b.dir+"/cut", "", broken); code != 400 {
		t.Errorf("checksum: %d %s", code, text)
	}
	if code, text, _ := b.putTar(b.dir+"/cut", "", whole); code != 200 {
		t.Errorf("whole: %d %s", code, text)
	}
	if code, text, _ := b.putTar(b.dir+"/cut/one", "", whole); code != 400 {
		t.Errorf("beneath a file: %d %s", code, text)
	}
}

// What cannot be packed is told, and the rest is there.
func TestTarSkips(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	dir := t.TempDir()
	for _, err := range []error{
		syscall.Mkfifo(dir+"/fifo", 0o644), os.WriteFile(dir+"/a", []byte("a"), 0o644), os.WriteFile(dir+"/z", []byte("z"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	resp, packed := b.do("GET", "/v1/tar?path="+dir, nil)
	if resp.StatusCode != 200 || resp.Trailer.Get(wire.TrailerSkipped) != "1" || resp.Trailer.Get(wire.TrailerEntries) != "3" {
		t.Fatalf("got %d %v", resp.StatusCode, resp.Trailer)
	}
	var names []string
	r := tar.NewReader(bytes.NewReader(packed))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if note, ok := strings.CutPrefix(h.PAXRecords["comment"], wire.SkippedComment); ok {
			var skipped wire.Skipped
			if err := json.Unmarshal([]byte(note), &skipped); err != nil {
				t.Fatal(err)
			}
			names = append(names, "skipped "+skipped.Path)
			continue
		}
		names = append(names, h.Name)
	}
	if want := []string{"./", "a", "skipped fifo", "z"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if code, text, report := b.putTar(b.dir+"/back", "", packed); code != 200 || report.Files != 2 {
		t.Errorf("back: %d %s", code, text)
	}
	if resp, _ := b.do("GET", "/v1/tar?path="+dir+"/fifo", nil); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a fifo itself: %d", resp.StatusCode)
	}
}
