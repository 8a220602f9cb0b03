package datasets

import (
	"fmt"
	"testing"
)

// Ids that are asked for in order are found or not, over the borders of shards, the same one
// twice, and beyond the last.
func TestSeek(t *testing.T) {
	t.Parallel()
	rows := many(1000)
	rows = append(rows[:500], rows[510:]...)
	v := mustCommit(t, folder(t, t.TempDir()), "notes", rows, meta(len(rows), 0), WriterOptions{ShardBytes: 1})
	s := Seek[note](t.Context(), v, WithColumns("id", "n"))
	defer s.Close()
	for _, i := range []int{0, 1, 1, 499, 500, 505, 509, 510, 700, 999, 1000, 2000} {
		id := fmt.Sprintf("%06d", i)
		row, ok, err := s.Row(id)
		if want := i < 500 || i >= 510 && i < 1000; err != nil || ok != want || ok && row.ID != id {
			t.Errorf("%s: %q, %t, %v; want %t", id, row.ID, ok, err, want)
		}
	}
	if _, ok, err := Seek[note](t.Context(), v, Where("n", "==", 1000)).Row("000001"); ok || err != nil {
		t.Errorf("of nothing: %t, %v", ok, err)
	}
	bad := Seek[note](t.Context(), v, WithColumns("other"))
	defer bad.Close()
	if _, ok, err := bad.Row("000001"); ok || err == nil {
		t.Errorf("of rows that cannot be read: %t, %v", ok, err)
	}
}
