package stats

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore/mem"
)

func of[R record.Row](t *testing.T, rows ...R) Stats {
	t.Helper()
	s := &mem.Store{}
	w, err := datasets.NewWriter[R](s, "rows", datasets.WriterOptions{Sort: true})
	must(t, err)
	defer w.Close()
	for _, r := range rows {
		must(t, w.Write(t.Context(), r))
	}
	digest, _, err := w.Commit(t.Context(), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: int64(len(rows))})
	must(t, err)
	v, err := datasets.OpenIn(t.Context(), s, "rows", digest)
	must(t, err)
	got, err := Of(context.Background(), v)
	must(t, err)
	return got
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tokens(n int64) *int64 { return &n }

func TestRollouts(t *testing.T) {
	t.Parallel()
	var rows []record.Rollout
	for i, o := range []record.Outcome{record.Resolved, record.Unresolved, record.Resolved, record.InfraError} {
		r := record.Rollout{RolloutID: fmt.Sprint(i), Source: "set-a", Policy: "p", Harness: "h", Verdict: record.Verdict{Outcome: o}}
		r.Trajectory.ExitStatus = record.ExitSubmitted
		for range i * 3 {
			r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{})
		}
		if i == 2 {
			r.Source = "set-b"
		}
		if i > 0 {
			r.Usage.PromptTokens, r.Usage.CompletionTokens = tokens(1000), tokens(int64(i))
		}
		rows = append(rows, r)
	}
	s := of(t, rows...)
	want := Table{Name: "outcomes by source", Columns: []string{"resolved", "unresolved", "infra_error"}, Rows: []Line{
		{"set-a", 3, []int64{1, 1, 1}}, {"set-b", 1, []int64{1, 0, 0}},
	}}
	if d := cmp.Diff(want, s.Tables[0]); d != "" || s.Rows != 4 {
		t.Errorf("%d rows: %s", s.Rows, d)
	}
	turns := Histogram{Name: "turns", Values: 4, Sum: 18, Min: 0, Max: 9, Buckets: []int64{1, 0, 1, 1, 1}}
	if d := cmp.Diff(turns, s.Histograms[0]); d != "" {
		t.Error(d)
	}
	if h := s.Histograms[1]; h.Name != "tokens" || h.Values != 3 || h.Unknown != 1 || h.Sum != 3006 {
		t.Errorf("%+v", h)
	}
}

func TestSFT(t *testing.T) {
	t.Parallel()
	row := record.SFTRow{ID: "1", Harness: "h", Teacher: "t", Resolved: true, Metadata: `{"source":"set-a"}`, NTokens: tokens(7),
		Messages: []record.SFTMessage{{Role: "user"}, {Role: "assistant", LossMask: 1}, {Role: "tool"}, {Role: "assistant"}}}
	other := record.SFTRow{ID: "2", Harness: "h", Teacher: "t", Metadata: "no JSON"}
	s := of(t, row, other)
	want := Table{Name: "outcomes by source", Columns: []string{"resolved", "not resolved"}, Rows: []Line{{"", 1, []int64{0, 1}}, {"set-a", 1, []int64{1, 0}}}}
	if d := cmp.Diff(want.Rows[1].Total, s.Tables[0].Rows[1].Total); d != "" || len(s.Tables[0].Columns) != 2 {
		t.Errorf("%+v", s.Tables[0])
	}
	if s.Histograms[0].Sum != 2 || s.Histograms[1].Sum != 1 || s.Histograms[2].Unknown != 1 {
		t.Errorf("%+v", s.Histograms)
	}
}

type odd struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"`
	Long  string   `json:"long"`
	N     *int64   `json:"n"`
	Share float64  `json:"share"`
	List  []string `json:"list"`
	In    struct {
		Yes bool `json:"yes"`
	} `json:"in"`
}

func (o odd) Key() string         { return o.ID }
func (odd) Schema() (string, int) { return "odd", 1 }

func TestAnyRows(t *testing.T) {
	t.Parallel()
	var rows []odd
	for i := range 50 {
		o := odd{ID: fmt.Sprintf("%02d", i), Kind: []string{"a", "b", "b"}[i%3], Long: fmt.Sprint(i), Share: .25, List: make([]string, i%2)}
		if i%2 == 0 {
			o.N = tokens(-5)
		}
		o.In.Yes = i == 0
		rows = append(rows, o)
	}
	s := of(t, rows...)
	tables := map[string]Table{}
	for _, table := range s.Tables {
		tables[table.Name] = table
	}
	if _, ok := tables["long"]; ok || len(s.Tables) != 3 {
		t.Errorf("tables %v", tables)
	}
	if k := tables["kind"]; k.Rows[0].Name != "b" || k.Rows[0].Total != 33 {
		t.Errorf("%+v", k)
	}
	if y := tables["in.yes"]; len(y.Rows) != 2 || y.Rows[1].Name != "true" || y.Rows[1].Total != 1 {
		t.Errorf("%+v", y)
	}
	for _, l := range tables["columns"].Rows {
		if l.Name == "n" && (l.Total != 50 || l.Counts[0]+l.Counts[1] != 50 || l.Counts[0] != 25) {
			t.Errorf("%+v", l)
		}
	}
	hist := map[string]Histogram{}
	for _, h := range s.Histograms {
		hist[h.Name] = h
	}
	if h := hist["n"]; h.Min != -5 || h.Values != 25 || h.Buckets[0] != 25 {
		t.Errorf("%+v", h)
	}
	if h := hist["thousandths of share"]; h.Min != 250 || h.Max != 250 || h.Sum != 50*250 {
		t.Errorf("%+v", h)
	}
	if h := hist["length of list"]; h.Sum != 25 || h.Values != 50 {
		t.Errorf("%+v", h)
	}
}

// TestTooManyNames keeps what a table holds bounded, and says what it left out.
func TestTooManyNames(t *testing.T) {
	t.Parallel()
	c := newCounter("names")
	for i := range 3 * mostNames {
		c.add(fmt.Sprint(i), "rows")
	}
	if got := c.table(); len(got.Rows) != mostNames || got.Other != 2*mostNames {
		t.Errorf("%d names, %d others", len(got.Rows), got.Other)
	}
}
