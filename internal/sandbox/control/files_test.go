package control_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/sandbox/control"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	at := "/sandboxes/" + r.box()
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, c := range []struct {
		name, path string
		content    []byte
	}{
		{"empty", "d/empty", nil},
		{"one byte", "one", []byte{0xff}},
		{"18 KiB", "deep/er/still", bytes.Repeat([]byte("0123456789abcdefgh"), 1024)},
		{"3 MiB of noise", "noise", noise},
		{"name with everything", "a é 报告 'q\" #?%2F\n-x", []byte("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(r.work, c.path)
			query := "?path=" + url.QueryEscape(path)
			put := r.do("POST", at+"/files", obj{"path": path, "content": base64.StdEncoding.EncodeToString(c.content)})
			if put.status != 200 || put.json["size"] != float64(len(c.content)) || put.json["success"] != true || put.str("path") != path {
				t.Fatalf("put: %d %s", put.status, put.raw)
			}
			got := r.do("GET", at+"/files"+query, nil)
			content, err := base64.StdEncoding.DecodeString(got.str("content"))
			if err != nil || !bytes.Equal(content, c.content) || got.json["size"] != float64(len(c.content)) || got.str("path") != path {
				t.Errorf("get: %d, %d bytes, %v", got.status, len(content), err)
			}
			raw := r.do("GET", at+"/raw"+query, nil)
			if !bytes.Equal(raw.raw, c.content) || raw.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("raw get: %d, %d bytes", raw.status, len(raw.raw))
			}
			put = r.do("PUT", at+"/raw"+query+"&mode=0750", append([]byte("R"), c.content...))
			if put.status != 200 || put.json["size"] != float64(len(c.content)+1) {
				t.Fatalf("raw put: %d %s", put.status, put.raw)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o750 || info.Size() != int64(len(c.content)+1) {
				t.Errorf("the file after a raw put: %v %v", info, err)
			}
		})
	}
	part := r.do("GET", at+"/raw?path="+r.work+"/noise", nil, "Range", "bytes=1-3")
	if part.status != http.StatusPartialContent || !bytes.Equal(part.raw, noise[0:3]) {
		t.Errorf("range: %d %x", part.status, part.raw)
	}
	// Relative paths are of the working folder.
	r.do("POST", at+"/files", obj{"path": "rel/x", "content": "eA==\n", "mode": "0600"})
	if a := r.do("GET", at+"/files?path=rel/x", nil); a.str("content") != "eA==" {
		t.Errorf("relative path: %s", a.raw)
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.MaxBody = 4096 })
	at := "/sandboxes/" + r.box()
	if err := os.WriteFile(filepath.Join(r.work, "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, path string
		body               any
		status             int
		want               string
	}{
		{"get nothing", "GET", "/files?path=/nope", nil, 404, `{"detail":"File not found: /nope"}`},
		{"raw get nothing", "GET", "/raw?path=/nope", nil, 404, `{"detail":"File not found: /nope"}`},
		{"get a folder", "GET", "/files?path=/tmp", nil, 400, "/tmp"},
		{"get without path", "GET", "/files", nil, 422, `{"detail":[{"loc":["query","path"],"msg":"field required","type":"value_error.missing"}]}`},
		{"raw get without path", "GET", "/raw", nil, 422, `["query","path"]`},
		{"empty path", "GET", "/files?path=", nil, 422, "path must not be empty"},
		{"put onto a folder", "PUT", "/raw?path=/tmp", "x", 400, "/tmp"},
		{"put below a file", "PUT", "/raw?path=" + r.work + "/plain/x", "x", 400, "plain"},
		{"put into proc", "PUT", "/raw?path=/proc/nope/x", "x", 0, "/proc/nope"},
		{"bad mode", "PUT", "/raw?path=/x&mode=rwx", "x", 422, "mode must be octal"},
		{"bad mode in a body", "POST", "/files", obj{"path": "x", "content": "", "mode": "9"}, 422, "mode must be octal"},
		{"put without content", "POST", "/files", obj{"path": "x"}, 422, `["body","content"]`},
		{"put without path", "POST", "/files", obj{"content": ""}, 422, `["body","path"]`},
		{"body too large", "POST", "/files", obj{"path": "x", "content": strings.Repeat("a", 5000)}, 413, "/raw?path="},
		{"list nothing", "GET", "/files/list?path=/nope", nil, 404, `{"detail":"Path not found: /nope"}`},
		{"unknown sandbox", "GET", "/../nosuch/files?path=/x", nil, 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do(c.method, at+c.path, c.body)
			if c.status != 0 && a.status != c.status || a.status < 400 || !strings.Contains(string(a.raw), c.want) {
				t.Errorf("answer %d %s, want %d with %s", a.status, a.raw, c.status, c.want)
			}
		})
	}
}

// An upload that breaks off leaves no file, and the old one whole.
func TestPutBrokenOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	at := "/sandboxes/" + r.box()
	path := filepath.Join(r.work, "kept")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	go func() {
		out.Write(bytes.Repeat([]byte("n"), 1<<20))
		out.CloseWithError(io.ErrUnexpectedEOF)
	}()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+at+"/raw?path="+path, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", testKey)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("a broken upload answered %d", resp.StatusCode)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the file is %.20q, %v", b, err)
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	at := "/sandboxes/" + r.box()
	r.run(strings.TrimPrefix(at, "/sandboxes/"), obj{"command": `mkdir l && cd l && mkdir sub && echo hi > b && ln -s b a && ln -s nowhere c && ln -s d d && mkfifo f && : > "$(printf 'bad\377')"`})
	a := r.do("GET", at+"/files/list?path="+r.work+"/l", nil)
	names, types := "", map[string]string{}
	files, _ := a.json["files"].([]any)
	for _, f := range files {
		e := f.(map[string]any)
		name := e["name"].(string)
		names += name + " "
		types[name] = e["type"].(string)
	}
	if names != "a b bad\uFFFD c d f sub " {
		t.Errorf("names %q (%d)", names, a.status)
	}
	for name, want := range map[string]string{"a": "file", "b": "file", "c": "file", "f": "file", "sub": "directory"} {
		if types[name] != want {
			t.Errorf("%s is a %s, want %s", name, types[name], want)
		}
	}
}

// A client that reads nothing before it has sent everything is told why its upload was
// refused at the first byte.
func TestRefusedUploadIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	r.run(id, obj{"command": "touch plain", "wait": true})
	content := bytes.Repeat([]byte("x"), 16<<20)
	for range 10 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "PUT /sandboxes/%s/raw?path=plain/below HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", id, testKey, len(content))
		if _, err := c.Write(content); err != nil {
			t.Fatalf("cut off: %v", err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if resp.StatusCode != 400 {
			t.Errorf("status %d", resp.StatusCode)
		}
		resp.Body.Close()
		c.Close()
	}
}
