package datasets

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
)

// note is a small row with a text that may be a blob.
type note struct {
	ID   string      `json:"id"`
	Text record.Text `json:"text"`
	Next []string    `json:"next"`
	N    *int64      `json:"n"`
}

func (n note) Key() string         { return n.ID }
func (note) Schema() (string, int) { return "note", 1 }

// other has the name of another kind.
type other struct {
	ID string `json:"id"`
}

func (o other) Key() string         { return o.ID }
func (other) Schema() (string, int) { return "other", 1 }

func folder(t testing.TB, root string) *dir.Store {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func meta(rows int, seed int64) Meta {
	return Meta{Stage: Stage{Name: "make", Version: 2, Config: []byte(`{"b":1,"a":[2]}`), Seed: seed}, RowsIn: int64(rows), Started: noon, Committed: noon.Add(time.Duration(seed) * time.Second)}
}

// notes is rows with short, long and binary text.
func notes(t testing.TB, s objstore.Store, n int) []note {
	t.Helper()
	keeper := Keeper{Store: s, Limit: 64}
	rows := make([]note, n)
	for i := range rows {
		raw := []byte(fmt.Sprintf("note %d", i))
		switch i % 3 {
		case 1:
			raw = append(raw, 0xff, byte(i))
		case 2:
			for len(raw) < 500 {
				raw = append(raw, raw...)
			}
		}
		text, err := keeper.Keep(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = note{ID: fmt.Sprintf("%04d", i), Text: text, Next: []string{}}
	}
	return rows
}

// commit writes rows as a version; opts may be zero.
func commit(t testing.TB, s objstore.Store, name string, rows []note, m Meta, opts WriterOptions) (string, bool, error) {
	t.Helper()
	w, err := NewWriter[note](s, name, opts)
	if err != nil {
		return "", false, err
	}
	defer w.Close()
	for _, r := range rows {
		if err := w.Write(t.Context(), r); err != nil {
			return "", false, err
		}
	}
	return w.Commit(t.Context(), m)
}

func mustCommit(t testing.TB, s objstore.Store, name string, rows []note, m Meta, opts WriterOptions) *Version {
	t.Helper()
	digest, _, err := commit(t, s, name, rows, m, opts)
	if err != nil {
		t.Fatal(err)
	}
	v, err := OpenIn(t.Context(), s, name, digest)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readRows[R record.Row](t testing.TB, v *Version, opts ...Option) []R {
	t.Helper()
	out := []R{}
	for r, err := range Rows[R](t.Context(), v, opts...) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// files is every file below root with its content.
func files(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".lock" {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		out[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
