package imports

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"orchard/internal/exit"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// seen is what Read visited, in a form to compare.
func seen(t *testing.T, path string) (out []string, err error) {
	t.Helper()
	err = Read(t.Context(), path, func(r Row, p *Problem) error {
		if p != nil {
			out = append(out, "! "+strings.TrimPrefix(p.Error(), filepath.Dir(path)+"/"))
			return nil
		}
		out = append(out, strings.TrimPrefix(r.Place, filepath.Dir(path)+"/")+" "+r.Raw)
		return nil
	})
	return out, err
}

func gz(t *testing.T, s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zst(t *testing.T, s string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(s), nil))
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, content string
		want                []string
	}{
		{"lines", "f.jsonl", "{\"a\":1}\n{\"a\":2}\n", []string{`f.jsonl:1 {"a":1}`, `f.jsonl:2 {"a":2}`}},
		{"BOM, CRLF, blank lines, no last end", "f.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\r\n  \n{\"a\":2}", []string{`f.jsonl:1 {"a":1}`, `f.jsonl:4 {"a":2}`}},
		{"lines named json", "f.json", "{\"a\":1}\n{\"a\":2}\n", []string{`f.json:1 {"a":1}`, `f.json:2 {"a":2}`}},
		{"array", "f.json", " [ {\"a\": 1},\n {\"a\":2} ]\n", []string{`f.json: row 1 {"a":1}`, `f.json: row 2 {"a":2}`}},
		{"gzip", "f.jsonl.gz", gz(t, "{\"a\":1}\n"), []string{`f.jsonl.gz:1 {"a":1}`}},
		{"zstd", "f.json.zst", zst(t, "[{\"a\":1}]"), []string{`f.json.zst: row 1 {"a":1}`}},
		{"one bad line among good ones", "f.jsonl", "{\"a\":1}\n{\"a\":\n{\"a\":3}\n", []string{
			`f.jsonl:1 {"a":1}`, "! f.jsonl:2: (no instance_id): json: the row is not a JSON object: it ends in the middle", `f.jsonl:3 {"a":3}`}},
		{"cut off", "f.jsonl", "{\"a\":1}\n{\"a\":", []string{
			`f.jsonl:1 {"a":1}`, "! f.jsonl:2: (no instance_id): json: the row is not a JSON object: it ends in the middle; the last line has no end, so the file may be cut off"}},
		{"invalid UTF-8", "f.jsonl", "{\"a\":\"\xff\"}\n", []string{"! f.jsonl:1: (no instance_id): a: invalid UTF-8 at byte 6 of the row; convert the file to UTF-8"}},
		{"two values in a line", "f.jsonl", "{} {}\n", []string{"! f.jsonl:1: (no instance_id): json: the row is not a JSON object: something follows the JSON value"}},
		{"list in a line", "f.jsonl", "{}\n[1]\n", []string{"f.jsonl:1 {}", "! f.jsonl:2: (no instance_id): json: the row is not a JSON object: found array"}},
		{"null in a line", "f.jsonl", "null\n", []string{"! f.jsonl:1: (no instance_id): json: the row is null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := seen(t, write(t, c.file, c.content))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReadBroken(t *testing.T) {
	t.Parallel()
	whole := gz(t, strings.Repeat("{\"a\":1}\n", 1000))
	for _, c := range []struct{ name, file, content, want string }{
		{"empty", "f.jsonl", "", "the file is empty"},
		{"only a BOM", "f.jsonl", "\xef\xbb\xbf", "the file is empty"},
		{"empty array", "f.json", "[]", "the file is empty"},
		{"UTF-16", "f.jsonl", "\xff\xfe{\x00}\x00", "UTF-16"},
		{"Parquet by another name", "f.jsonl", "PAR1....", "must end in .parquet"},
		{"LFS pointer", "f.jsonl", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
		{"no gzip", "f.jsonl.gz", "{}", "is no gzip file"},
		{"gzip cut off", "f.jsonl.gz", whole[:len(whole)-9], "cannot be read to its end"},
		{"no zstd", "f.jsonl.zst", "{}{}{}{}", "cannot be read to its end"},
		{"array cut off", "f.json", "[{\"a\":1},{\"a\"", "row 2: the list is not JSON"},
		{"array not closed", "f.json", "[{\"a\":1}", "row 2: the list is not JSON"},
		{"something after the array", "f.json", "[{\"a\":1}] x", "something follows"},
		{"no Parquet", "f.parquet", "PAR1", "f.parquet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := seen(t, write(t, c.file, c.content))
			if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Input {
				t.Errorf("got %v (exit %d), want %q and exit 65", err, exit.Code(err), c.want)
			}
		})
	}
}

func TestReadLongLine(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", 50<<20) + `"}`
	path := write(t, "f.jsonl", long+"\n{\"a\":1}\n")
	rows := 0
	err := Read(t.Context(), path, func(r Row, p *Problem) error {
		rows++
		if p != nil || rows == 1 && r.Raw != long {
			t.Errorf("row %d: problem %v, %d bytes", rows, p, len(r.Raw))
		}
		return nil
	})
	if err != nil || rows != 2 {
		t.Errorf("got %d rows, %v", rows, err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.json.gz", "c.parquet", "notes.txt", ".hidden.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Files([]string{dir, "file://" + dir + "/b.jsonl"})
	want := []string{dir + "/a.json.gz", dir + "/b.jsonl", dir + "/c.parquet", dir + "/b.jsonl"}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	for _, c := range []struct {
		in   string
		code int
	}{{dir + "/none.jsonl", exit.Input}, {dir + "/notes.txt", exit.Input}, {t.TempDir(), exit.Input}, {"s3://b/x.jsonl", exit.Config}} {
		if _, err := Files([]string{c.in}); exit.Code(err) != c.code {
			t.Errorf("%s: %v", c.in, err)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	r, problem := parseRow([]byte(`{"instance_id":"x-1","repo":"a/b","base_commit":"1234567","problem_statement":"s","patch":`+
		string(mustJSON(goPatch))+`,"FAIL_TO_PASS":["t"],"created_at":"2024-02-03","difficulty":3,"meta":{"score":0.5}}`), "f:1")
	if problem != nil {
		t.Fatal(problem)
	}
	p, problem := Parse(r, "set")
	if problem != nil {
		t.Fatal(problem)
	}
	for s, want := range map[string]bool{
		``: true, `language == "go" && len(fail_to_pass) > 0`: true, `repo startsWith "z/"`: false,
		`created_at > date("2024-01-01")`: true, `row.difficulty == 3 && row.meta.score < 1`: true, `"t" in fail_to_pass`: true,
	} {
		f, err := NewFilter(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if got, err := f.Keep(p); got != want || err != nil {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		`language = "go"`: "(1:10)", `lang == "go"`: "unknown name lang (1:1)", `len(fail_to_pass)`: "expected bool",
	} {
		if _, err := NewFilter(s); err == nil || exit.Code(err) != exit.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", s, err, want)
		}
	}
	f, err := NewFilter(`row.none > 3`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Keep(p); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "f:1: x-1") {
		t.Errorf("a filter that fails on a row: %v", err)
	}
}

// Opening a pipe that nobody writes to waits forever, and a signal does not end it.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "rows.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{pipe, folder, link, filepath.Dir(link)} {
		files, err := Files([]string{in})
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "is a pipe") {
			t.Errorf("%s: %v, %v", in, files, err)
		}
	}
	if path, problem := (RepoRef{FastImport, "rows.jsonl"}).Locate(filepath.Join(folder, "tasks.jsonl"), false); problem == nil || !strings.HasSuffix(problem.What, "is no file") {
		t.Errorf("a repository: %s, %v", path, problem)
	}
}
