package folder

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/query"
	"orchard/internal/exit"
	"orchard/internal/objstore/mem"
)

type row struct {
	ID    string     `json:"id"`
	Text  string     `json:"text"`
	N     *int64     `json:"n"`
	Ratio float64    `json:"ratio"`
	At    *time.Time `json:"at"`
	Raw   []byte     `json:"raw"`
	List  []item     `json:"list"`
}

type item struct {
	Name  string   `json:"name"`
	Words []string `json:"words"`
}

func (r row) Key() string         { return r.ID }
func (row) Schema() (string, int) { return "row", 3 }

func version(t *testing.T, rows int) *datasets.Version {
	t.Helper()
	s := &mem.Store{}
	w, err := datasets.NewWriter[row](s, "rows", datasets.WriterOptions{})
	must(t, err)
	defer w.Close()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000, time.UTC)
	for i := range rows {
		r := row{ID: fmt.Sprintf("%04d", i), Text: strings.Repeat("ü<b>\n", i%50), Raw: []byte{byte(i), 0xff}, List: []item{}, Ratio: float64(i) / 3}
		switch i % 3 {
		case 1:
			n := int64(i) << 50
			r.N, r.At, r.Ratio = &n, &at, math.NaN()
			r.List = []item{{"a", []string{}}, {"", []string{"x", ""}}}
		case 2:
			r.Ratio = math.Inf(-1)
		}
		must(t, w.Write(t.Context(), r))
	}
	digest, _, err := w.Commit(t.Context(), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: int64(rows)})
	must(t, err)
	v, err := datasets.OpenIn(t.Context(), s, "rows", digest)
	must(t, err)
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options(t *testing.T, v *datasets.Version, format string, fileBytes int64, where ...string) Options {
	t.Helper()
	q, err := query.New(v.Manifest().Schema, nil, where)
	must(t, err)
	return Options{Format: format, Query: q, FileBytes: fileBytes}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir+"/")] = string(raw)
		return err
	}))
	return out
}

// rowsOf is the rows of all files of a folder as JSON lines, as another reader has them.
func rowsOf(t *testing.T, dir, format string) string {
	t.Helper()
	var out bytes.Buffer
	paths, err := filepath.Glob(filepath.Join(dir, "data", "train-*"))
	must(t, err)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		must(t, err)
		switch format {
		case "jsonl.gz":
			z, err := gzip.NewReader(bytes.NewReader(raw))
			must(t, err)
			_, err = io.Copy(&out, z)
			must(t, err)
		case "jsonl.zst":
			z, err := zstd.NewReader(bytes.NewReader(raw))
			must(t, err)
			_, err = io.Copy(&out, z)
			must(t, err)
			z.Close()
		case "jsonl":
			out.Write(raw)
		default:
			read := arrowio.ReadParquet
			if format == "arrow" {
				read = arrowio.ReadArrow
			}
			for row, err := range read(t.Context(), bytes.NewReader(raw), int64(len(raw))) {
				must(t, err)
				for name, v := range row { // as JSON has no other numbers
					if f, ok := v.(float64); ok && f-f != 0 {
						row[name] = nil
					}
				}
				line, err := json.Marshal(row)
				must(t, err)
				out.Write(append(line, '\n'))
			}
		}
	}
	return out.String()
}

// canonical is JSON lines with sorted keys.
func canonical(t *testing.T, lines string) []map[string]any {
	t.Helper()
	var out []map[string]any
	d := json.NewDecoder(strings.NewReader(lines))
	d.UseNumber()
	for {
		var m map[string]any
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out = append(out, m)
	}
}

// TestEveryFormatHasTheRows writes each twice, whole and cut into files.
func TestEveryFormatHasTheRows(t *testing.T) {
	t.Parallel()
	v := version(t, 200)
	var want bytes.Buffer
	for o, err := range datasets.Objects(t.Context(), v) {
		must(t, err)
		raw, err := finite(o).(arrowio.Object).MarshalJSON()
		must(t, err)
		want.Write(append(raw, '\n'))
	}
	for _, format := range Formats {
		for _, fileBytes := range []int64{0, 4000} {
			a, b := t.TempDir(), t.TempDir()
			r, err := Write(t.Context(), v, a, options(t, v, format, fileBytes))
			must(t, err)
			_, err = Write(t.Context(), v, b, options(t, v, format, fileBytes))
			must(t, err)
			if d := cmp.Diff(files(t, a), files(t, b)); d != "" {
				t.Errorf("%s: two exports differ: %s", format, d)
			}
			cut := fileBytes > 0 && format != "jsonl.zst" && format != "jsonl.gz" // which compress all of it into less
			if r.Rows != 200 || r.Written != r.Files || (r.Files > 1) != cut {
				t.Errorf("%s in files of %d bytes: %+v", format, fileBytes, r)
			}
			if d := cmp.Diff(canonical(t, want.String()), canonical(t, rowsOf(t, a, format))); d != "" {
				t.Errorf("%s in files of %d bytes: %s", format, fileBytes, d)
			}
		}
	}
}

// TestEveryFileHasTheSchema: also one without rows.
func TestEveryFileHasTheSchema(t *testing.T) {
	t.Parallel()
	v := version(t, 10)
	for _, format := range Formats {
		dir := t.TempDir()
		r, err := Write(t.Context(), v, dir, options(t, v, format, 0, "id=none"))
		must(t, err)
		if got := rowsOf(t, dir, format); r.Files != 1 || r.Rows != 0 || got != "" {
			t.Errorf("%s: %+v, %q", format, r, got)
		}
	}
}

// TestStoppedExportGoesOn stops exports after each number of rows; done again, they end
// as an undisturbed one, and keep the files that were finished.
func TestStoppedExportGoesOn(t *testing.T) {
	t.Parallel()
	v := version(t, 60)
	calm := t.TempDir()
	all, err := Write(t.Context(), v, calm, options(t, v, "jsonl", 700))
	must(t, err)
	want := files(t, calm)
	for stop := 1; stop <= 60; stop += 7 {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		o := options(t, v, "jsonl", 700)
		o.Progress = func(rows int64) {
			if rows == int64(stop) {
				cancel()
			}
		}
		if _, err := Write(ctx, v, dir, o); !errors.Is(err, context.Canceled) && err != nil {
			t.Fatal(err)
		}
		cancel()
		if named, _ := filepath.Glob(filepath.Join(dir, "data", "train-*")); len(named) > 0 && stop < 50 {
			t.Errorf("stopped after %d rows: %d files have their names", stop, len(named))
		}
		r, err := Write(t.Context(), v, dir, options(t, v, "jsonl", 700))
		must(t, err)
		if d := cmp.Diff(want, files(t, dir)); d != "" {
			t.Errorf("stopped after %d rows: %s", stop, d)
		}
		if stop > 50 && r.Written >= all.Files {
			t.Errorf("stopped after %d rows: %d of %d files were written again", stop, r.Written, all.Files)
		}
	}
}

// TestFolderByAnyName: a path that is not in its shortest form, or has the marks of a
// pattern in it, is as good as any.
func TestFolderByAnyName(t *testing.T) {
	t.Parallel()
	v := version(t, 60)
	for _, name := range []string{"plain/", "./plain", "a/../plain", "rows[1", "rows*"} {
		dir := t.TempDir() + "/" + name
		must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
		must(t, os.MkdirAll(filepath.Dir(dir)+"/a", 0o755))
		left := filepath.Join(dir, "data", ".train-00000.parquet") // of another, that was killed
		must(t, os.WriteFile(left, []byte("x"), 0o644))
		ctx, cancel := context.WithCancel(t.Context())
		o := options(t, v, "jsonl", 700)
		o.Progress = func(rows int64) {
			if rows == 58 {
				cancel()
			}
		}
		if _, err := Write(ctx, v, dir, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		_, err := Write(t.Context(), v, dir, options(t, v, "jsonl", 700))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s: what was begun is still there", name)
		}
	}
}

// TestNothingIsReplaced: files of others, changed ones and other exports stay.
func TestNothingIsReplaced(t *testing.T) {
	t.Parallel()
	v := version(t, 60)
	for _, c := range []struct {
		name, file, want string
		before           bool
	}{
		{"a file in the way", "data/train-00000-of-00001.parquet", "is in the way", true},
		{"a damaged list", stateName, "is damaged", true},
		{"a changed file", "data/train-00000-of-00001.parquet", "was changed after it was written", false},
	} {
		dir := t.TempDir()
		o := options(t, v, "parquet", 0)
		path := filepath.Join(dir, c.file)
		if !c.before {
			_, err := Write(t.Context(), v, dir, o)
			must(t, err)
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte("mine"), 0o644))
		_, err := Write(t.Context(), v, dir, o)
		if exit.Code(err) != exit.Input || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("%s: %v", c.name, err)
		}
		if raw, _ := os.ReadFile(path); string(raw) != "mine" {
			t.Errorf("%s: was replaced", c.name)
		}
	}
	dir := t.TempDir()
	unlock, err := lock(dir)
	must(t, err)
	if _, err := Write(t.Context(), v, dir, options(t, v, "jsonl", 0)); exit.Code(err) != exit.Retry {
		t.Errorf("two at once: %v", err)
	}
	unlock()
	_, err = Write(t.Context(), v, dir, options(t, v, "jsonl", 0))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine"), 0o644))
	_, err = Write(t.Context(), v, dir, options(t, v, "jsonl", 0))
	must(t, err)
	if raw, _ := os.ReadFile(filepath.Join(dir, "README.md")); string(raw) != "mine" {
		t.Error("a card that somebody wrote was replaced")
	}
}
