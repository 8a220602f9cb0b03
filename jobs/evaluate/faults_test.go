package evaluate

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/runner"
	"orchard/internal/sandbox/sandboxtest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// grading is a configuration that grades the predictions of all_preds.jsonl with sandboxes
// of the service at url.
func grading(t *testing.T, w world, url, key, out string) (Config, *bytes.Buffer, runner.Deps) {
	t.Helper()
	c, text := Defaults(), &bytes.Buffer{}
	c.In, c.Out, c.OutputDir = []string{filepath.Join(w.dir, "tasks")}, filepath.Join(w.dir, out), filepath.Join(w.dir, out+"-files")
	c.Predictions, c.Canary, c.Workers, c.MaxRetries, c.Resamples = []string{filepath.Join(w.dir, "preds.jsonl")}, false, 2, 0, 200
	c.SandboxURL, c.SandboxKey, c.Memory = url, llm.Secret(key), "512Mi"
	return c, text, runner.Deps{Stdout: text, Stderr: &bytes.Buffer{}, Backoff: time.Millisecond, Now: func() time.Time { return time.Unix(1, 0) }}
}

// A sandbox service that makes no sandboxes: what needs none is known, the rest is unknown
// and not failed. Nothing is committed unless that is allowed, and then there are bounds
// and no headline. A rerun with sandboxes finds out.
func TestFaultsOfTheSandboxes(t *testing.T) {
	t.Parallel()
	service, w := sandboxtest.New(t), newWorld(t, t.TempDir())
	w.predictions(t, "preds.jsonl", [3]any{"m", "a", w.gold}, [3]any{"m", "b", nil}, [3]any{"m", "c", ""})
	to, err := url.Parse(service.URL)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/sandboxes" {
			http.Error(w, `{"detail":"broken"}`, http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(broken.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	c, text, d := grading(t, w, broken.URL, service.Key, "out")
	if _, err := Run(ctx, c, d); exit.Code(err) != exit.Retry || !strings.Contains(err.Error(), "1 of 3 units") {
		t.Fatalf("exit %d: %v", exit.Code(err), err)
	}
	if text.Len() > 0 {
		t.Errorf("something is said of what was not committed: %s", text)
	}
	c.MaxInfra, c.Out, c.OutputDir = 1, c.Out+"-all", c.OutputDir+"-all"
	if _, err := Run(ctx, c, d); err != nil {
		t.Fatal(err)
	}
	want := "m in predictions: no headline: 33.3 % of the rollouts have no reward, and at most 2 % may be so; the rate is 0.0 % at worst and 33.3 % at best\n"
	if !strings.HasPrefix(text.String(), want) {
		t.Errorf("got  %swant %s", text, want)
	}
	page, err := os.ReadFile(filepath.Join(c.OutputDir, "evaluation.md"))
	must(t, err)
	if !strings.Contains(string(page), "| m in predictions | not_finished | none | 1 |") {
		t.Errorf("%s", page)
	}

	c, text, d = grading(t, w, service.URL, service.Key, "out")
	if r, err := Run(ctx, c, d); err != nil || r.Units.Reused != 2 || r.Units.Done != 1 {
		t.Fatalf("%+v %v", r.Units, err)
	}
	if !strings.HasPrefix(text.String(), "m in predictions: 1 of 3 rollouts resolved: 33.3 %") {
		t.Errorf("%s", text)
	}
}

// The rows and files of the same predictions. Change them only with a new Version, or
// AnalysisVersion.
func TestOutputGolden(t *testing.T) {
	t.Parallel()
	service, w := sandboxtest.New(t), newWorld(t, t.TempDir())
	w.predictions(t, "preds.jsonl", [3]any{"m", "a", w.gold}, [3]any{"m", "b", w.wrong}, [3]any{"n", "c", nil})
	c, _, d := grading(t, w, service.URL, service.Key, "out")
	_, err := Run(t.Context(), c, d)
	must(t, err)
	var all bytes.Buffer
	for _, name := range []string{"systems.json", "evaluation.txt", "evaluation.md", "evaluation.json"} {
		b, err := os.ReadFile(filepath.Join(c.OutputDir, name))
		must(t, err)
		all.WriteString("== " + name + "\n")
		all.Write(b)
	}
	got := all.String()
	const golden = "testdata/output.golden"
	if *update {
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got != string(want) {
		t.Errorf("the output is not that of %s; when it is meant to change, raise Version or AnalysisVersion and run with -update. Now:\n%s", golden, got)
	}
}
