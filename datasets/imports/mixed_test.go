package imports

import (
	"bytes"
	"testing"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
)

// TestTasksOfAllKindsInOneFile: tasks with a goal and tasks without one, in turn, come
// out of a Parquet file as they went in.
func TestTasksOfAllKindsInOneFile(t *testing.T) {
	t.Parallel()
	var want []record.Task
	for range 3 {
		for _, name := range []string{"swe-bench", "webgym", "swe-gym", "claw-eval", "insta", "tasks"} {
			f, _ := FormatByName(name)
			for _, p := range parseFile(t, fixture(f), name) {
				want = append(want, p.Task)
			}
		}
	}
	var parquet bytes.Buffer
	err := arrowio.WriteParquet(&parquet, func(yield func(record.Task, error) bool) {
		for _, k := range want {
			if !yield(k, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for row, err := range arrowio.ReadParquet(t.Context(), bytes.NewReader(parquet.Bytes()), int64(parquet.Len())) {
		if err != nil {
			t.Fatal(err)
		}
		goal, _ := row["goal"].(map[string]any)
		switch k := want[i].Goal; {
		case (k == nil) != (goal == nil):
			t.Errorf("row %d: goal %v, want %+v", i, goal, k)
		case k != nil && (goal["kind"] != k.Kind || len(goal["criteria"].([]any)) != len(k.Criteria) || len(goal["files"].([]any)) != len(k.Files)):
			t.Errorf("row %d: goal %v, want %+v", i, goal, k)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d rows, want %d", i, len(want))
	}
}
