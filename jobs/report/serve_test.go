package report

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/runner"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	store := &mem.Store{}
	for key, body := range map[string]string{
		"report/files/k/report.html": "<page>", "report/files/k/index.js": "index()", "report/files/k/report.txt": "table", "report/files/k/notes.csv": "{}",
		"report/refs/latest": "secret", "report/files/other/report.txt": "secret", "secret.txt": "secret", "report/files/k/deeper/x.js": "secret",
	} {
		if _, err := store.Create(t.Context(), key, objstore.Bytes(body)); err != nil {
			t.Fatal(err)
		}
	}
	h := handler(store, "report/files/k/")
	const html, js, text = "text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
	for _, c := range []struct {
		name, method, path string
		code               int
		kind, body         string
	}{
		{"root is the page", "GET", "/", 200, html, "<page>"},
		{"page", "GET", "/report.html", 200, html, "<page>"},
		{"script", "GET", "/index.js", 200, js, "index()"},
		{"query is ignored", "GET", "/index.js?v=2", 200, js, "index()"},
		{"table", "GET", "/report.txt", 200, text, "table"},
		{"head", "HEAD", "/index.js", 200, js, ""},
		{"head of nothing", "HEAD", "/nope.js", 404, "", ""},
		{"unknown file", "GET", "/trajectories-00009.js", 404, "", ""},
		{"unknown kind", "GET", "/notes.csv", 404, "", ""},
		{"another report", "GET", "/../other/report.txt", 404, "", ""},
		{"encoded traversal", "GET", "/..%2fother%2freport.txt", 404, "", ""},
		{"above the store", "GET", "/../../../secret.txt", 404, "", ""},
		{"no extension", "GET", "/../../../report/refs/latest", 404, "", ""},
		{"folder", "GET", "/deeper/x.js", 404, "", ""},
		{"double slash", "GET", "//report.txt", 404, "", ""},
		{"backslash", "GET", "/..%5cx.js", 404, "", ""},
		{"NUL", "GET", "/x%00.js", 404, "", ""},
		{"dots", "GET", "/..", 404, "", ""},
		{"endless name", "GET", "/" + strings.Repeat("x", 5000) + ".js", 404, "", ""},
		{"post", "POST", "/", 405, "", ""},
		{"delete", "DELETE", "/report.html", 405, "", ""},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Result()
		body, err := io.ReadAll(got.Body)
		if err != nil || got.StatusCode != c.code {
			t.Errorf("%s: code %d, want %d (%v)", c.name, got.StatusCode, c.code, err)
		}
		if strings.Contains(string(body), "secret") {
			t.Errorf("%s: the answer is %q", c.name, body)
		}
		switch c.code {
		case 200:
			if got.Header.Get("Content-Type") != c.kind || string(body) != c.body || got.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %q, headers %v", c.name, body, got.Header)
			}
		case 405:
			if got.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: headers %v", c.name, got.Header)
			}
		}
	}
}

// The command serves what it made, and ends when it is told to.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := write(t.Context(), "rollout", 3, dir+"/rollouts"); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.In, c.Out = []string{dir + "/rollouts"}, dir+"/report"
	var out strings.Builder
	if _, err := Run(t.Context(), c, runner.Deps{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveReport(ctx, w, runner.Deps{}.WithDefaults().Open, dir+"/report", "127.0.0.1:0") }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Fields(strings.TrimPrefix(string(line[:n]), "report on "))[0]
	for _, name := range []string{"", "index.js", "trajectories-00000.js", "report.txt"} {
		got, err := http.Get(url + name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || got.StatusCode != 200 || int64(len(body)) != got.ContentLength {
			t.Errorf("%s: code %d, %d bytes, %v", name, got.StatusCode, len(body), err)
		}
		if name == "report.txt" && !strings.HasPrefix(out.String(), string(body)) {
			t.Errorf("printed %q, served %q", out.String(), body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
