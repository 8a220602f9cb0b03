// Package readers_test reads the Parquet files of exports with programs that others wrote
// (DuckDB, polars, hyparquet) and compares the rows with those of our own reader.
package readers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/export/folder"
	"orchard/datasets/query"
	"orchard/datasets/record"
	"orchard/internal/objstore/mem"
)

// sample has every type of a column, and what readers get wrong.
type sample struct {
	ID     string     `json:"id"`
	Text   string     `json:"text"`
	Yes    bool       `json:"yes"`
	Small  int8       `json:"small"`
	Wide   int64      `json:"wide"`
	Some   *int64     `json:"some"`
	Huge   uint64     `json:"huge"`
	Ratio  float64    `json:"ratio"`
	Single *float32   `json:"single"`
	At     *time.Time `json:"at"`
	Raw    []byte     `json:"raw"`
	Tags   []string   `json:"tags"`
	IDs    []int32    `json:"ids"`
	Turns  []turn     `json:"turns"`
	Inside inside     `json:"inside"`
}

type turn struct {
	Role  string   `json:"role"`
	Calls []call   `json:"calls"`
	Score *float64 `json:"score"`
	Words []string `json:"words"`
}

type call struct {
	Name string `json:"name"`
	Exit *int64 `json:"exit"`
}

type inside struct {
	Note  string  `json:"note"`
	Maybe *int64  `json:"maybe"`
	Deep  []int64 `json:"deep"`
}

func (s sample) Key() string         { return s.ID }
func (sample) Schema() (string, int) { return "sample", 1 }

func ptr[T any](v T) *T { return &v }

func samples() []sample {
	empty := sample{ID: "0000", Raw: []byte{}, Tags: []string{}, IDs: []int32{}, Turns: []turn{}, Inside: inside{Deep: []int64{}}}
	full := sample{
		ID: "0001", Text: "naïve 日本語 🦆 \"quoted\" \\ \t\n\r\x01 \u2028 line", Yes: true, Small: -128,
		Wide: 1<<53 + 1, Some: ptr(int64(math.MinInt64)), Huge: math.MaxUint64, Ratio: 0.1, Single: ptr(float32(0.25)),
		At: ptr(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)), Raw: []byte{0, 0xff, 0xfe, 'a'},
		Tags: []string{"a", "", "ü"}, IDs: []int32{0, -1, math.MaxInt32},
		Turns: []turn{
			{Role: "assistant", Calls: []call{{"bash", ptr(int64(0))}, {"edit", nil}}, Score: ptr(1e-300), Words: []string{}},
			{Calls: []call{}, Words: []string{"x", ""}},
			{Role: "tool", Calls: []call{{"", ptr(int64(1<<60 + 1))}}, Words: []string{}},
		},
		Inside: inside{"n", ptr(int64(-1)), []int64{math.MaxInt64, 1<<53 + 1}},
	}
	long := empty
	long.ID, long.Text = "0002", strings.Repeat("long ünicode text\n", 200_000) // 3.6 MB
	long.At = ptr(time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
	rows := []sample{empty, full, long}
	for i := 3; i < 300; i++ { // enough for several files
		r := full
		if i%3 == 0 {
			r = empty
		}
		r.ID, r.Wide, r.Text = fmt.Sprintf("%04d", i), int64(i)<<40, fmt.Sprintf("row %d", i)
		r.Turns = r.Turns[:min(len(r.Turns), i%4)]
		rows = append(rows, r)
	}
	return rows
}

func commit[R record.Row](t *testing.T, rows []R) *datasets.Version {
	t.Helper()
	store := &mem.Store{}
	w, err := datasets.NewWriter[R](store, "sample", datasets.WriterOptions{})
	check(t, err)
	defer w.Close()
	for _, r := range rows {
		check(t, w.Write(t.Context(), r))
	}
	digest, _, err := w.Commit(t.Context(), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: int64(len(rows))})
	check(t, err)
	v, err := datasets.OpenIn(t.Context(), store, "sample", digest)
	check(t, err)
	return v
}

// exported is the Parquet files of a version and the rows that our own reader finds.
func exported(t *testing.T, v *datasets.Version, fileBytes int64, columns, where []string) (files []string, rows []any) {
	t.Helper()
	q, err := query.New(v.Manifest().Schema, columns, where)
	check(t, err)
	dir := t.TempDir()
	_, err = folder.Write(t.Context(), v, dir, folder.Options{Format: "parquet", Query: q, FileBytes: fileBytes})
	check(t, err)
	files, err = filepath.Glob(filepath.Join(dir, "data", "train-*.parquet"))
	check(t, err)
	for row, err := range q.Scan(t.Context(), v, "") {
		check(t, err)
		rows = append(rows, row.Object)
	}
	return files, rows
}

var programs = []string{"duckdb", "polars", "hyparquet"}

func TestOthersReadTheSameRows(t *testing.T) {
	node := modules(t)
	v := commit(t, samples())
	for _, c := range []struct {
		name           string
		fileBytes      int64
		columns, where []string
		files, rows    int
	}{
		{"several files", 12_000, nil, nil, 2, 300},
		{"some columns of some rows", 0, []string{"turns.calls.exit", "at", "inside.deep", "huge"}, []string{"small<0", "tags=ü"}, 1, 199},
		{"no rows", 0, nil, []string{"id=none"}, 1, 0},
	} {
		files, rows := exported(t, v, c.fileBytes, c.columns, c.where)
		if len(files) < c.files || len(rows) != c.rows {
			t.Fatalf("%s: %d files and %d rows, want at least %d and %d", c.name, len(files), len(rows), c.files, c.rows)
		}
		for _, program := range programs {
			t.Run(program+"/"+c.name, func(t *testing.T) { compare(t, node, program, files, slices.Clone(rows)) })
		}
	}
}

// The files that stages write go another way than exports.
func TestOthersReadTypedParquet(t *testing.T) {
	node := modules(t)
	path := filepath.Join(t.TempDir(), "train-00000-of-00001.parquet")
	f, err := os.Create(path)
	check(t, err)
	var rows []any
	check(t, arrowio.WriteParquet(f, func(yield func(sample, error) bool) {
		for _, s := range samples() {
			if !yield(s, nil) {
				return
			}
		}
	}))
	check(t, f.Close())
	for o, err := range datasets.Objects(t.Context(), commit(t, samples())) {
		check(t, err)
		rows = append(rows, o)
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) { compare(t, node, program, []string{path}, slices.Clone(rows)) })
	}
}

// compare reads files with another program and tells the first row that differs.
func compare(t *testing.T, node, program string, files []string, want []any) {
	dir := t.TempDir()
	script, err := os.ReadFile("read.mjs")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "read.mjs"), script, 0o644))
	check(t, os.Symlink(node, filepath.Join(dir, "node_modules"))) // where node looks for them
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, "read.mjs"), program}, files...)...)
	if program == "polars" { // from node it has no way to hand out bytes
		const bytes = "raw"
		cmd.Env = append(os.Environ(), "WITHOUT="+bytes)
		for i, row := range want {
			want[i] = slices.DeleteFunc(slices.Clone(row.(arrowio.Object)), func(m arrowio.Member) bool { return m.Name == bytes })
		}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.Bytes())
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n := 0
	for ; ; n++ {
		var got any
		if err := d.Decode(&got); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s, row %d: %v", program, n, err)
		}
		if n < len(want) {
			if diff := differ(want[n], got, "row"); diff != "" {
				t.Fatalf("%s, row %d: %s", program, n, diff)
			}
		}
	}
	if n != len(want) {
		t.Fatalf("%s found %d rows, want %d", program, n, len(want))
	}
}

// differ says where a value of ours is not what another program said in JSON.
func differ(want, got any, at string) string {
	wrong := func() string { return fmt.Sprintf("%s is %.80v, want %.80v", at, got, want) }
	tagged := func(tag string) any {
		if m, ok := got.(map[string]any); ok {
			return m[tag]
		}
		return got
	}
	switch w := want.(type) {
	case arrowio.Object:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s has %v, want %d columns", at, slices.Sorted(maps.Keys(g)), len(w))
		}
		for _, m := range w {
			value, ok := g[m.Name]
			if !ok {
				return fmt.Sprintf("%s.%s is absent", at, m.Name)
			}
			if d := differ(m.Value, value, at+"."+m.Name); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return wrong()
		}
		for i := range w {
			if d := differ(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	case time.Time:
		if tagged("$us") != json.Number(fmt.Sprint(w.UnixMicro())) {
			return wrong()
		}
		return ""
	case []byte:
		if tagged("$base64") != base64.StdEncoding.EncodeToString(w) {
			return wrong()
		}
		return ""
	case float32:
		return differ(float64(w), got, at)
	case float64, int64, uint64:
		n, ok := got.(json.Number)
		if !ok || !sameNumber(w, n) {
			return wrong()
		}
		return ""
	}
	if want != got {
		return wrong()
	}
	return ""
}

// sameNumber compares whole numbers in all their digits, others as float64.
func sameNumber(want any, got json.Number) bool {
	if f, ok := want.(float64); ok {
		g, err := got.Float64()
		return err == nil && f == g
	}
	w, _ := new(big.Rat).SetString(fmt.Sprint(want))
	g, ok := new(big.Rat).SetString(got.String())
	return ok && w.Cmp(g) == 0
}
