package imports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
)

// sweRow is a row as task sets on the hub have it: lists, a struct, a time, an integer version.
type sweRow struct {
	InstanceID string     `json:"instance_id"`
	Repo       string     `json:"repo"`
	Base       string     `json:"base_commit"`
	Statement  string     `json:"problem_statement"`
	Patch      string     `json:"patch"`
	F2P        []string   `json:"FAIL_TO_PASS"`
	P2P        string     `json:"PASS_TO_PASS"`
	Version    int64      `json:"version"`
	Created    time.Time  `json:"created_at"`
	Install    sweInstall `json:"install_config"`
	Score      float64    `json:"score"`
}

type sweInstall struct {
	TestCmd []string `json:"test_cmd"`
}

func (r sweRow) Key() string           { return r.InstanceID }
func (r sweRow) Schema() (string, int) { return "swe", 1 }

// TestParquet: the same tasks as Parquet and as JSON give the same rows.
func TestParquet(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 3, 4, 5, 6, 7000, time.UTC)
	var file, lines bytes.Buffer
	err := arrowio.WriteParquet(&file, func(yield func(sweRow, error) bool) {
		for i := range 3 {
			r := sweRow{fmt.Sprintf("x-%d", i), "a/b", "1234567", "s", goPatch, []string{"t 1", "t'2"}, `["t3"]`, 7, at, sweInstall{[]string{"go test -json ./x"}}, 0.5}
			lines.Write(mustJSON(r))
			lines.WriteByte('\n')
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tasks := func(name, content string) (out []record.Task) {
		err := Read(t.Context(), write(t, name, content), func(r Row, problem *Problem) error {
			if problem == nil {
				var p Parsed
				p, problem = Parse(r, "set")
				out = append(out, p.Task)
			}
			if problem != nil {
				t.Error(problem)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	got, want := tasks("f.parquet", file.String()), tasks("f.jsonl", lines.String())
	if len(got) != 3 || got[0].Raw == "" || !strings.Contains(got[0].Raw, `"score":0.5`) {
		t.Fatalf("%+v", got)
	}
	for i := range got {
		got[i].Raw, want[i].Raw = "", ""
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := seen(t, write(t, "cut.parquet", file.String()[:file.Len()-20])); err == nil || !strings.Contains(err.Error(), "cut.parquet: the Parquet file cannot be read") {
		t.Errorf("a file cut off: %v", err)
	}
}
