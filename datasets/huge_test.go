package datasets

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// A column that holds more than 2 GB of text in one shard, beyond what 32-bit offsets
// reach, is read right: no batch of it is that large. A row that no batch takes is
// refused by its id.
func TestSoakHugeColumns(t *testing.T) {
	if os.Getenv("ORCHARD_SOAK") == "" {
		t.Skip("takes gigabytes: make soak")
	}
	s := folder(t, t.TempDir())
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d\n", i), 25<<20) } // 200 MiB
	w, err := NewWriter[note](s, "notes", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const n = 11
	for i := range n {
		if err := w.Write(t.Context(), note{ID: fmt.Sprintf("%02d", i), Text: record.Text{Value: text(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	digest, _, err := w.Commit(t.Context(), meta(n, 0))
	if err != nil {
		t.Fatal(err)
	}
	v, err := OpenIn(t.Context(), s, "notes", digest)
	if err != nil || len(v.Manifest().Shards) != 1 {
		t.Fatalf("%d shards, %v", len(v.Manifest().Shards), err)
	}
	i := 0
	for r, err := range Rows[note](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Text.Value != text(i) {
			t.Errorf("row %d changed", i)
		}
		i++
	}
	if i != n {
		t.Errorf("%d rows", i)
	}
	_, _, err = commit(t, s, "notes", []note{{ID: "long", Text: record.Text{Value: text(0)}, Next: []string{text(1)}}}, meta(1, 1), WriterOptions{})
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), `row "long": row of`) {
		t.Errorf("a row of 400 MiB: %v", err)
	}
}
