package control_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// pack is a tar of files, each with its name as content.
func pack(t testing.TB, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(name))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, name)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTar(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	path := "/sandboxes/" + id + "/tar?path="
	a := r.do("PUT", path+"in", pack(t, "a", "deep/b b", "bad\xff"))
	if a.status != 200 || a.json["files"] != 3.0 || a.str("path") != r.work+"/in" {
		t.Fatalf("put: %d %s", a.status, a.raw)
	}
	if a := r.do("PUT", path+"in", pack(t, "ok", "../out")); a.status != 400 || !strings.Contains(a.str("detail"), "1 files (2 bytes)") {
		t.Errorf("leaves: %d %s", a.status, a.raw)
	}
	for query, want := range map[string]int{"": 422, "?path=": 422, "?path=in&links=some": 422} {
		if a := r.do("PUT", "/sandboxes/"+id+"/tar"+query, pack(t)); a.status != want {
			t.Errorf("put %q: %d, want %d", query, a.status, want)
		}
	}
	for query, want := range map[string]int{"?path=nowhere": 404, "?path=in&gzip=maybe": 422, "?path=/dev/null": 400} {
		if a := r.do("GET", "/sandboxes/"+id+"/tar"+query, nil); a.status != want {
			t.Errorf("get %q: %d %s, want %d", query, a.status, a.raw, want)
		}
	}
	for _, query := range []string{"in", "in&gzip=1"} {
		req, _ := http.NewRequest("GET", r.url+path+query, nil)
		req.Header.Set("X-API-Key", testKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Trailer.Get("X-Tar-Entries") != "6" || resp.Trailer.Get("X-Tar-Skipped") != "0" {
			t.Fatalf("get %s: %v, trailer %v", query, err, resp.Trailer)
		}
		if a := r.do("PUT", path+"again", packed); a.status != 200 || a.json["files"] != 4.0 || a.json["directories"] != 2.0 {
			t.Errorf("round trip of %s: %d %s", query, a.status, a.raw)
		}
		if got := r.run(id, obj{"command": "diff -r in again && rm -r again && echo same"}).str("stdout"); got != "same\n" {
			t.Errorf("round trip of %s: %s", query, got)
		}
	}
}

// An upload that breaks off is an error that says what came of it; to a client that still
// listens, whatever its kind of body.
func TestTarUploadBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	whole := pack(t, "one", "two")
	half := func(route, length string, body []byte) (int, string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "PUT /sandboxes/%s/%s?path=cut HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n%s\r\n\r\n", id, route, testKey, length)
		conn.Write(body)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err.Error()
		}
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if status, text := half("raw", "Content-Length: 99999", whole); status/100 == 2 {
		t.Errorf("a file: %d %s", status, text)
	}
	for name, c := range map[string]struct {
		length string
		body   []byte
	}{
		"in an entry":        {"Content-Length: 99999", whole[:1536+100]},
		"after the end mark": {"Content-Length: 99999", whole},
		"chunked":            {"Transfer-Encoding: chunked", append([]byte(fmt.Sprintf("%x\r\n", len(whole))), whole...)},
	} {
		if status, text := half("tar", c.length, c.body); status != 400 || !strings.Contains(text, "the upload broke off") || !strings.Contains(text, "were written") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// A download whose sandbox ends in the middle does not look whole.
func TestTarDownloadBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	f, err := os.Create(r.work + "/large")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(4 << 30); err != nil { // a hole: it costs nothing
		t.Fatal(err)
	}
	f.Close()
	req, _ := http.NewRequest("GET", r.url+"/sandboxes/"+id+"/tar?path=.", nil)
	req.Header.Set("X-API-Key", testKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	r.rt.KillAgent(id)
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d more bytes and an end", n)
	}
}
