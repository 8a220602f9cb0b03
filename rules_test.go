// Package orchard_test holds the rules of the repository that no compiler checks.
package orchard_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-json=ImportPath,Imports,Deps,Standard"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// under reports whether path is one of the packages or below one.
func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

// Imports go one way; the folders are those of the design.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	leaves := []string{"orchard/internal/seal", "orchard/internal/exit", "orchard/internal/logx", "orchard/internal/buildinfo",
		"orchard/internal/lossy", "orchard/internal/serve", "orchard/internal/stats", "orchard/internal/whole", "orchard/internal/warmgo", "orchard/internal/bar", "orchard/internal/passrate", "orchard/internal/wording", "orchard/internal/quantity"}
	rules := []struct {
		why  string
		from []string
		// may lists our packages that from may import, besides themselves; forbid lists
		// packages, ours or not, that they must not.
		may, forbid []string
	}{
		{"a leaf imports nothing of ours", leaves, []string{}, nil},
		{"row types are the standard library's", []string{"orchard/datasets/record"}, []string{}, nil},
		{"the store knows no datasets", []string{"orchard/internal/objstore"}, leaves, nil},
		{"datasets stand on the store", []string{"orchard/datasets"}, append([]string{"orchard/internal/objstore"}, leaves...), nil},
		{"the agent is small", []string{"orchard/agent"}, []string{}, nil},
		{"the model client knows no tasks", []string{"orchard/internal/llm"}, append([]string{"orchard/datasets/record"}, leaves...), nil},
		{"a harness sees a shell and a model", []string{"orchard/internal/harness"},
			append([]string{"orchard/datasets/record", "orchard/internal/llm", "orchard/internal/sandbox"}, leaves...), []string{"net/http"}},
		{"grading sees sandboxes, never how they are made", []string{"orchard/internal/grade", "orchard/internal/workspace"},
			append([]string{"orchard/datasets/record", "orchard/internal/sandbox", "orchard/internal/workspace"}, leaves...),
			[]string{"net/http", "orchard/internal/sandbox/control", "orchard/internal/sandbox/local", "orchard/internal/sandbox/httpclient"}},
		{"what a sandbox is knows no runtime", []string{"orchard/internal/sandbox"}, append([]string{"orchard/agent/wire"}, leaves...), nil},
		{"the runner knows no sandbox, model or harness", []string{"orchard/internal/runner"},
			append([]string{"orchard/datasets", "orchard/internal/objstore"}, leaves...), nil},
	}
	for _, p := range list(t, "./...") {
		for _, r := range rules {
			if !under(p.ImportPath, r.from...) {
				continue
			}
			for _, imp := range p.Imports {
				if strings.HasPrefix(imp, "orchard/") && !under(imp, r.from...) && !under(imp, r.may...) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
				}
				if under(imp, r.forbid...) && !strings.Contains(p.ImportPath, "scripted") {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
				}
			}
		}
	}
}

// Heavy or dangerous dependencies have one door each.
func TestOneDoor(t *testing.T) {
	t.Parallel()
	doors := []struct {
		module string
		by     []string
	}{
		{"github.com/apache/arrow", []string{"orchard/datasets/arrowio"}},
		{"github.com/minio/minio-go", []string{"orchard/internal/objstore/minio"}},
		{"k8s.io/client-go", []string{"orchard/internal/sandbox/kube", "orchard/cmd/orchard-controller", "orchard/cmd/envctl", "orchard/test/e2e/api"}},
		{"github.com/argoproj/argo-workflows", nil}, // the tests in test/argo are a module of their own
		// Stages have flags, and so do the programs and what they share; a package that
		// does the work is given a struct.
		{"github.com/urfave/cli", []string{"orchard/cmd", "orchard/jobs", "orchard/envctl", "orchard/datasets/command", "orchard/internal/argv", "orchard/internal/doctor", "orchard/internal/embed/embedflags", "orchard/internal/exit/exittest",
			"orchard/internal/llm/llmflags", "orchard/internal/pipeline/command", "orchard/internal/rollout/draw", "orchard/internal/rollout/play", "orchard/internal/runner", "orchard/internal/sandbox/control/command"}},
		// A log line is for what runs by itself: services, stages and what they leave to a
		// background. Everything else returns its errors.
		{"github.com/rs/zerolog", []string{"orchard/cmd", "orchard/jobs", "orchard/internal/logx", "orchard/internal/runner", "orchard/internal/serve", "orchard/internal/grade",
			"orchard/internal/pipeline/backing", "orchard/internal/sandbox/control", "orchard/internal/sandbox/local", "orchard/internal/sandbox/kube", "orchard/internal/sandbox/egress", "orchard/internal/sandbox/httpclient"}},
		{"github.com/rs/zerolog/log", nil}, // a global logger
	}
	for _, p := range list(t, "./...") {
		if !strings.HasPrefix(p.ImportPath, "orchard/") {
			continue
		}
		for _, imp := range p.Imports {
			for _, d := range doors {
				if strings.HasPrefix(imp, d.module) && !under(p.ImportPath, d.by...) {
					t.Errorf("%s imports %s; only %v may", p.ImportPath, imp, d.by)
				}
			}
			if strings.HasPrefix(p.ImportPath, "orchard/jobs/") && strings.HasPrefix(imp, "orchard/jobs/") && stageOf(imp) != stageOf(p.ImportPath) {
				t.Errorf("%s imports %s: stages never import each other", p.ImportPath, imp)
			}
			if !strings.HasPrefix(p.ImportPath, "orchard/cmd/") && under(imp, "orchard/cmd") {
				t.Errorf("%s imports %s: nothing imports a main", p.ImportPath, imp)
			}
			if under(imp, "orchard/jobs") && !under(p.ImportPath, "orchard/cmd", "orchard/jobs") {
				t.Errorf("%s imports %s: only programs know stages", p.ImportPath, imp)
			}
			if testOnly(imp) && !testOnly(p.ImportPath) {
				t.Errorf("%s imports %s, which is for tests only", p.ImportPath, imp)
			}
		}
	}
}

// stageOf is the stage that a package below jobs belongs to.
func stageOf(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "orchard/jobs/"), "/")
	return name
}

// testOnly reports whether a package is for tests, other than by its file names.
func testOnly(path string) bool {
	return under(path, "orchard/internal/exit/exittest", "orchard/internal/sandbox/sandboxtest", "orchard/internal/objstore/objtest", "orchard/internal/objstore/mem", "orchard/datasets/gentest", "orchard/jobs/credit/oracle", "orchard/jobs/filter/gen", "orchard/internal/rollout/draw/drawtest", "orchard/internal/llm/llmtest", "orchard/internal/embed/embedtest", "orchard/test")
}

// Every package says what it is for; product code waits on contexts, and uses the words
// of docs/terms.md.
func TestWords(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if and .GoFiles (not .Doc)}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		t.Errorf("%s has no package comment", path)
	}
	for name, raw := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, word := range []string{"time.Sleep(", `"failed to `, "data set"} {
			if bytes.Contains(raw, []byte(word)) {
				t.Errorf("%s says %s", name, word)
			}
		}
	}
}

// The agent is in every sandbox: the standard library, x/sys, WebSockets, its own frames, and what
// builds a local sandbox around it.
func TestAgentStaysSmall(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./cmd/orchard-agent") {
		if p.Standard || under(p.ImportPath, "orchard/agent", "orchard/cmd/orchard-agent", "orchard/internal/buildinfo", "orchard/internal/sandbox/local/cell", "golang.org/x/sys", "github.com/gorilla/websocket", "golang.org/x/net/proxy", "golang.org/x/net/internal/socks") ||
			strings.HasPrefix(p.ImportPath, "vendor/") {
			continue
		}
		t.Errorf("orchard-agent depends on %s", p.ImportPath)
	}
}

// orchard never builds a Kubernetes client, so that a first build stays quick.
func TestOrchardBuildsNoKubernetesClient(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./cmd/orchard") {
		if strings.HasPrefix(p.ImportPath, "k8s.io/client-go") || strings.HasPrefix(p.ImportPath, "github.com/argoproj/") {
			t.Errorf("orchard depends on %s", p.ImportPath)
		}
	}
}

// Argo is for tests in a module of their own: in ours it would raise the versions of what
// the programs are built with.
func TestArgoStaysOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("github.com/argoproj/")) {
			t.Errorf("%s names Argo, whose place is test/argo/go.mod", name)
		}
	}
}

// goFiles is every Go file of the repository by its path.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Files stay readable: mains under 60 lines, the rest under 300.
func TestFilesStayShort(t *testing.T) {
	t.Parallel()
	for path, raw := range goFiles(t) {
		most := 300
		switch {
		case strings.HasSuffix(path, "_test.go"):
			most = 500
		case strings.HasPrefix(path, "cmd/") && filepath.Base(path) == "main.go":
			most = 60
		}
		if n := bytes.Count(raw, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, most is %d", path, n, most)
		}
	}
}

// The Makefile stays a page, and says what each target is for.
func TestMakefile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for line := range strings.Lines(string(raw)) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, ".") || strings.HasPrefix(line, "#") || strings.ContainsAny(name, " =$") || strings.HasPrefix(rest, "=") {
			continue
		}
		targets++
		if !strings.Contains(rest, "##") && !strings.Contains(name, "/") {
			t.Errorf("target %s has no ## help", name)
		}
	}
	if targets == 0 || targets > 25 {
		t.Errorf("%d targets, want 1 to 25", targets)
	}
}
