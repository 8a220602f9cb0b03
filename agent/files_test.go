package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/agent/wire"
)

func TestFilesRoundTrip(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	sizes := []int{0, 1, 18 << 10, 16 << 20}
	if !testing.Short() {
		sizes = append(sizes, 200<<20)
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			random := func() io.Reader {
				return io.LimitReader(rand.NewChaCha8([32]byte{byte(size)}), int64(size))
			}
			want := sha256.New()
			_, _ = io.Copy(want, random())
			path := "/v1/files?path=deep/er/file&mode=0640"
			req, err := http.NewRequest("PUT", "http://agent"+path, random())
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = int64(size)
			resp, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Fatalf("put: %d", resp.StatusCode)
			}
			resp, err = b.http.Get("http://agent" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := sha256.New()
			if n, err := io.Copy(got, resp.Body); err != nil || n != int64(size) {
				t.Fatalf("get: %d bytes, %v", n, err)
			}
			if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
				t.Error("the bytes differ")
			}
			if resp.Header.Get("X-File-Mode") != "0640" || resp.Header.Get("X-File-Mtime") == "" {
				t.Errorf("headers: %v", resp.Header)
			}
			if sum := b.sh("sha256sum < deep/er/file"); sum != hex.EncodeToString(want.Sum(nil))+"  -\n" {
				t.Errorf("the file in the sandbox is another: %s", sum)
			}
		})
	}
	if peak := memory(t, b.cmd.Process.Pid, "VmHWM"); peak > 100<<20 {
		t.Errorf("the agent took %d bytes", peak)
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	names := []string{"a b", "é", "报告.pdf", `"quoted"'`, "%2F", "#?&=", "new\nline", "-leading", "bad\xff", strings.Repeat("x", 255), ".hidden", "a\\b", "*"}
	for _, name := range names {
		b.put(name, "content of "+name)
		if got := b.get(name); got != "content of "+name {
			t.Errorf("%q: got %q", name, got)
		}
	}
	var l wire.Listing
	b.want(200, "GET", "/v1/files/list?path=.", nil, &l)
	if len(l.Files) != len(names) {
		t.Errorf("got %d entries, want %d: %v", len(l.Files), len(names), l.Files)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.put("f", "0123456789")
	for _, c := range []struct {
		name, value, want string
		status            int
	}{
		{"middle", "bytes=2-4", "234", 206},
		{"open", "bytes=7-", "789", 206},
		{"last", "bytes=-2", "89", 206},
		{"past the end", "bytes=20-", "", 416},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest("GET", "http://agent/v1/files?path=f", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Range", c.value)
			resp, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || c.status == 206 && string(text) != c.want {
				t.Errorf("got %d %q", resp.StatusCode, text)
			}
		})
	}
	if got := b.get("/proc/self/cmdline"); !strings.Contains(got, "--listen") {
		t.Errorf("a file of /proc: got %q", got)
	}
}

func TestPutKeepsWhatItReplaces(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.sh("echo old > real; chmod 0751 real; ln -s real link; ln -s sub/new dangling; ln -s loop loop; mkfifo fifo; mkdir dir")
	b.put("link", "new")
	if got := b.sh("cat real; readlink link; stat -c %%a real"); got != "newreal\n751\n" {
		t.Errorf("through a link: got %q", got)
	}
	b.put("dangling", "new")
	if got := b.sh("cat sub/new; readlink dangling; stat -c %%a sub/new"); got != "newsub/new\n644\n" {
		t.Errorf("through a dangling link: got %q", got)
	}
	for _, c := range []struct {
		path   string
		status int
		code   string
		says   string
	}{
		{"dir", 400, wire.CodeNotFile, "EISDIR"},
		{"fifo", 400, wire.CodeNotFile, "not a regular file"},
		{"/dev/null", 400, wire.CodeNotFile, "not a regular file"},
		{"loop", 400, wire.CodeBadRequest, "ELOOP"},
		{"real/below", 400, wire.CodeBadRequest, "ENOTDIR"},
		{strings.Repeat("x", 256), 400, wire.CodeBadRequest, "ENAMETOOLONG"},
		{"/proc/new", 0, "", "/proc/new"},
		{"", 400, wire.CodeBadRequest, "path: missing"},
		{"a\x00b", 400, wire.CodeBadRequest, "NUL"},
	} {
		resp, text := b.do("PUT", "/v1/files?path="+url.QueryEscape(c.path), strings.NewReader("x"))
		if c.status != 0 && resp.StatusCode != c.status || !strings.Contains(string(text), c.code) || !strings.Contains(string(text), c.says) || resp.StatusCode == 200 {
			t.Errorf("put %.20q: got %d %s, want %d %s %s", c.path, resp.StatusCode, text, c.status, c.code, c.says)
		}
	}
	if resp, text := b.do("PUT", "/v1/files?path=f&mode=999", strings.NewReader("x")); resp.StatusCode != 400 || !strings.Contains(string(text), "mode:") {
		t.Errorf("bad mode: %d %s", resp.StatusCode, text)
	}
	if got := b.sh("ls -A"); got != "dangling\ndir\nfifo\nlink\nloop\nreal\nsub\n" {
		t.Errorf("something was left behind: %q", got)
	}
}

// A body that ends early, and an agent killed in the middle, leave the old file.
func TestPutIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.put("f", "old")
	signed, err := http.NewRequest("PUT", "http://agent/v1/files?path=f", strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Sign(signed, b.key, testUID, time.Now()); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /v1/files?path=f HTTP/1.1\r\nHost: agent\r\nContent-Length: 10\r\nAuthorization: %s\r\n\r\n01234", signed.Header.Get("Authorization"))
	eventually(t, "the body is being written", func() bool { return strings.Contains(b.sh("ls -A"), ".orchard-put-") })
	conn.Close()
	eventually(t, "the temporary file is gone", func() bool { return b.sh("ls -A") == "f\n" })
	if got := b.get("f"); got != "old" {
		t.Errorf("got %q", got)
	}
}

func TestGetRefuses(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.sh("mkfifo fifo; mkdir dir; ln -s nowhere dangling; ln -s loop loop; echo x > f")
	for _, c := range []struct {
		route, path string
		status      int
		code, says  string
	}{
		{"files", "none", 404, wire.CodeNotFound, "ENOENT"},
		{"files", "dangling", 404, wire.CodeNotFound, "ENOENT"},
		{"files", "dir", 400, wire.CodeNotFile, "EISDIR"},
		{"files", "fifo", 400, wire.CodeNotFile, "not a regular file"},
		{"files", "/dev/zero", 400, wire.CodeNotFile, "not a regular file"},
		{"files", b.socket, 400, wire.CodeNotFile, "not a regular file"},
		{"files", "loop", 400, wire.CodeBadRequest, "ELOOP"},
		{"files", "", 400, wire.CodeBadRequest, "path: missing"},
		{"files/list", "none", 404, wire.CodeNotFound, "ENOENT"},
		{"files/list", "f", 400, wire.CodeBadRequest, "ENOTDIR"},
		{"files/list", "fifo", 400, wire.CodeBadRequest, "ENOTDIR"},
		{"files/list", "", 400, wire.CodeBadRequest, "path: missing"},
	} {
		resp, text := b.do("GET", "/v1/"+c.route+"?path="+url.QueryEscape(c.path), nil)
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.code) || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %q: got %d %s, want %d %s %s", c.route, c.path, resp.StatusCode, text, c.status, c.code, c.says)
		}
	}
}

func TestListShowsEveryEntry(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.sh("mkdir d; cd d; echo hello > file; mkdir -m 0750 sub; ln -s nowhere dangling; ln -s loop loop; ln -s file link; mkfifo fifo; echo x > secret; chmod 000 secret; touch $(printf 'bad\\377')")
	var l wire.Listing
	b.want(200, "GET", "/v1/files/list?path=d", nil, &l)
	type entry struct {
		Name, Type string
		Size       int64
		Mode       uint32
		Failed     bool
	}
	var got []entry
	for _, f := range l.Files {
		if f.Type == "directory" || f.Type == "symlink" {
			f.Size, f.Mode = 0, f.Mode&0o750
		}
		if f.ModifiedUS == 0 {
			t.Errorf("%q has no time", f.Name)
		}
		got = append(got, entry{f.Name, f.Type, f.Size, f.Mode, f.Error != ""})
	}
	want := []entry{
		{"bad\ufffd", "file", 0, 0o644, false},
		{"dangling", "symlink", 0, 0o750, true},
		{"fifo", "other", 0, 0o644, false},
		{"file", "file", 6, 0o644, false},
		{"link", "file", 6, 0o644, false},
		{"loop", "symlink", 0, 0o750, true},
		{"secret", "file", 2, 0, false},
		{"sub", "directory", 0, 0o750, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if l.Path != b.dir+"/d" {
		t.Errorf("path: got %q", l.Path)
	}
	var empty wire.Listing
	b.want(200, "GET", "/v1/files/list?path=d/sub", nil, &empty)
	if empty.Files == nil || len(empty.Files) != 0 {
		t.Errorf("an empty folder: got %#v", empty.Files)
	}
}
