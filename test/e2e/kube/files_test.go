package kube_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// noise is size bytes that do not compress, the same each time.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return b
}

func rawPath(id, path string) string {
	return "/sandboxes/" + id + "/raw?path=" + url.QueryEscape(path)
}

// C1: an upload is said to have worked, and what is larger than some kilobytes is not there.
func TestC1_UploadsOfAnySize(t *testing.T) {
	t.Parallel()
	replicas, s := Replicas(t), Begin(t, Roomy(bashImage))
	for _, size := range []int{0, 1, 18 << 10, 16 << 20, 200 << 20} {
		data, path := noise(size), fmt.Sprintf("/tmp/c1/%d", size)
		if a := Reply(t, "PUT", replicas[0]+rawPath(s.ID(), path), data); a.Status != http.StatusOK {
			t.Fatalf("put %d bytes: %d: %s", size, a.Status, a.Body)
		}
		if got := Run(t, s, "sha256sum <"+path); !strings.HasPrefix(string(got.Stdout), sum(data)+" ") {
			t.Errorf("%d bytes are %s in the sandbox", size, got.Stdout)
		}
		if a := Reply(t, "GET", replicas[1]+rawPath(s.ID(), path), nil); !bytes.Equal(a.Body, data) {
			t.Errorf("%d bytes came back as %d: %d", size, len(a.Body), a.Status)
		}
		if size > 16<<20 {
			continue // in base64 they are for the tests of what bounds a request
		}
		Call(t, "POST", replicas[2]+"/sandboxes/"+s.ID()+"/files", map[string]any{"path": path, "content": data}, &struct{}{})
		var f struct {
			Content []byte
			Size    int
		}
		Call(t, "GET", replicas[0]+"/sandboxes/"+s.ID()+"/files?path="+path, nil, &f)
		if !bytes.Equal(f.Content, data) || f.Size != size {
			t.Errorf("%d bytes in base64 came back as %d, said to be %d", size, len(f.Content), f.Size)
		}
	}
}

// C4: a name that is not plain ASCII breaks a header, a path or the listing.
func TestC4_EveryName(t *testing.T) {
	t.Parallel()
	u, id := Controller(t).URL, Common(t, shImage).ID()
	names := []string{"a space", "é", "报告.pdf", `q"u'o\te`, "100%2F", "#?&=+", "new\nline", "-rf", strings.Repeat("n", 255), "..."}
	for _, name := range names {
		path := "/tmp/c4/" + name
		if a := Reply(t, "PUT", u+rawPath(id, path), []byte(name)); a.Status != http.StatusOK {
			t.Errorf("put %q: %d: %s", name, a.Status, a.Body)
		}
		if a := Reply(t, "GET", u+rawPath(id, path), nil); a.Status != http.StatusOK || string(a.Body) != name {
			t.Errorf("get %q: %d: %s", name, a.Status, a.Body)
		}
		var f struct{ Content []byte }
		Call(t, "GET", u+"/sandboxes/"+id+"/files?path="+url.QueryEscape(path), nil, &f)
		if string(f.Content) != name {
			t.Errorf("get %q in base64: %q", name, f.Content)
		}
	}
	listed := list(t, u, id, "/tmp/c4")
	for _, name := range names {
		if e := listed[name]; e.Type != "file" || e.Size != len(name) {
			t.Errorf("%q is listed as %+v", name, e)
		}
	}
	if len(listed) != len(names) {
		t.Errorf("%d names, %d entries", len(names), len(listed))
	}
}

type entry struct {
	Name, Type, Error string
	Size              int
}

func list(t testing.TB, url, id, path string) map[string]entry {
	t.Helper()
	var l struct{ Files []entry }
	Call(t, "GET", url+"/sandboxes/"+id+"/files/list?path="+path, nil, &l)
	all := map[string]entry{}
	for _, e := range l.Files {
		all[e.Name] = e
	}
	return all
}

// C5: one odd entry fails the listing of its whole folder.
func TestC5_OddEntriesLeaveTheListingWhole(t *testing.T) {
	t.Parallel()
	s := Common(t, bashImage)
	Run(t, s, `mkdir -p /tmp/c5/sub && cd /tmp/c5 && echo 12 >plain && ln -s nowhere dangling && ln -s loop loop && mkfifo fifo &&
		touch "$(printf 'bad\377')" && echo x >closed && chmod 000 closed && mkdir shut && chmod 000 shut`)
	got := list(t, Controller(t).URL, s.ID(), "/tmp/c5")
	for name, kind := range map[string]string{"plain": "file", "sub": "directory", "shut": "directory", "closed": "file"} {
		if got[name].Type != kind {
			t.Errorf("%s is listed as %+v", name, got[name])
		}
	}
	if len(got) != 8 || got["plain"].Size != 3 || got["bad\uFFFD"].Name == "" || got["dangling"].Name == "" || got["loop"].Name == "" || got["fifo"].Name == "" {
		t.Errorf("listed: %+v", got)
	}
}

// C6: an upload fails, and the answer does not say of what.
func TestC6_FileErrorsNamePathAndCause(t *testing.T) {
	t.Parallel()
	u, s := Controller(t).URL, Common(t, bashImage)
	Run(t, s, "mkdir -p /tmp/c6/folder && echo x >/tmp/c6/file && mkdir -m 000 -p /tmp/c6/shut")
	for _, c := range []struct {
		path   string
		data   []byte
		status int
		cause  string
	}{
		{"/tmp/c6/folder", nil, http.StatusBadRequest, "directory"},
		{"/tmp/c6/file/below", nil, http.StatusBadRequest, "not a directory"},
		{"/tmp/c6/shut/file", nil, http.StatusForbidden, "permission denied"},
		{"/opt/orchard/file", nil, http.StatusForbidden, "read-only file system"},
		{"/dev/shm/file", noise(80 << 20), http.StatusInsufficientStorage, "no space left on device"},
		{"/tmp/c6/" + strings.Repeat("n", 256), nil, http.StatusBadRequest, "name too long"},
	} {
		answers := map[string]Answer{"raw": Reply(t, "PUT", u+rawPath(s.ID(), c.path), c.data)}
		if c.data == nil {
			raw, err := json.Marshal(map[string]string{"path": c.path, "content": base64.StdEncoding.EncodeToString([]byte("x"))})
			if err != nil {
				t.Fatal(err)
			}
			answers["base64"] = Reply(t, "POST", u+"/sandboxes/"+s.ID()+"/files", raw)
		}
		for way, a := range answers {
			if a.Status != c.status || !strings.Contains(strings.ToLower(a.Detail()), c.cause) || !strings.Contains(a.Detail(), c.path) {
				t.Errorf("%s %.40s: %d: %s; want %d and %q", way, c.path, a.Status, a.Detail(), c.status, c.cause)
			}
		}
	}
	if a := Reply(t, "GET", u+rawPath(s.ID(), "/tmp/c6/none"), nil); a.Status != http.StatusNotFound || !strings.Contains(a.Detail(), "/tmp/c6/none") {
		t.Errorf("a file that is not there: %d: %s", a.Status, a.Detail())
	}
}
