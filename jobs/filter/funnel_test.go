package filter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/runner"
	"orchard/jobs/filter/funnel"
	"orchard/jobs/filter/gen"
	"orchard/jobs/filter/rules"
)

func quiet() runner.Deps { return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)} }

// written is a dataset of rows under a folder.
func written[R record.Row](t *testing.T, root, name string, rows func(yield func(R) bool)) string {
	t.Helper()
	store, err := datasets.Stores(t.Context(), "file://"+root)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0).UTC()
	_, err = fixture.Commit(t.Context(), store, name, rows, datasets.Meta{Stage: datasets.Stage{Name: "import", Version: 1}, Started: now, Committed: now})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, name)
}

func each[R any](list []R) func(func(R) bool) {
	return func(yield func(R) bool) {
		for _, r := range list {
			if !yield(r) {
				return
			}
		}
	}
}

// world writes a generated world and returns the configuration that filters it, with the
// truth about each row.
func world(t *testing.T, f gen.Funnel) (Config, map[string]gen.Truth) {
	t.Helper()
	root, w, truth := t.TempDir(), gen.New(f), map[string]gen.Truth{}
	c := Defaults()
	c.In = []string{written(t, root, "tasks", func(yield func(record.Task) bool) {
		for r := range w.Rows() {
			if _, twice := truth[r.Task.TaskID]; twice {
				t.Fatalf("%s is there twice", r.Task.TaskID)
			}
			if truth[r.Task.TaskID] = r.Truth; !yield(r.Task) {
				return
			}
		}
	})}
	c.Evals = []string{"eval=" + written(t, root, "eval", each(w.Eval)), "webvoyager=" + written(t, root, "webvoyager", each(w.WebVoyager))}
	for name, list := range map[string][]string{"similarweb_top100": w.SimilarWeb, "moz_top500": w.Moz} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("# sites\n"+strings.Join(list, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		c.Sets = append(c.Sets, name+"="+filepath.Join(root, name))
	}
	c.Rules, c.Out = "gui", filepath.Join(root, "out")
	return c, truth
}

// files is the content of a result's files by name.
func resultFiles(t *testing.T, r runner.Result) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, f := range r.Files {
		b, err := os.ReadFile(strings.TrimPrefix(f.URI, "file://"))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = b
	}
	return out
}

// compare holds every row against its truth: kept, or dropped under this reason.
func compare(t *testing.T, r runner.Result, want map[string]string, plant func(id string) string) {
	t.Helper()
	got := map[string]string{}
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Task](t.Context(), v, datasets.WithColumns("task_id")) {
		if err != nil {
			t.Fatal(err)
		}
		got[row.TaskID] = ""
	}
	lines := bufio.NewScanner(bytes.NewReader(resultFiles(t, r)[FileDropped]))
	for lines.Scan() {
		var d dropped
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if _, twice := got[d.TaskID]; twice || d.Rule == "" || d.Detail == "" {
			t.Fatalf("%+v: listed twice, or without rule or detail", d)
		}
		got[d.TaskID] = d.Reason
	}
	bad := 0
	for id, reason := range want {
		if g, there := got[id]; !there || g != reason {
			if bad++; bad < 20 {
				t.Errorf("%s (%s): %q (there: %v), want %q", id, plant(id), g, there, reason)
			}
		}
	}
	if len(got) != len(want) || bad > 0 {
		t.Errorf("%d of %d rows are wrong; %d came out", bad, len(want), len(got))
	}
}

// The paper's funnel at a twentieth of its size, row by row.
func TestPaperFunnel(t *testing.T) {
	t.Parallel()
	paper(t, gen.Paper.Scale(20))
}

// At its full size: ORCHARD_SOAK=1.
func TestPaperFunnelWhole(t *testing.T) {
	if os.Getenv("ORCHARD_SOAK") == "" {
		t.Skip("set ORCHARD_SOAK=1 for 292,092 rows")
	}
	r := paper(t, gen.Paper)
	if r.RowsIn != 292092 || r.RowsOut != 140055 {
		t.Errorf("%d in, %d out", r.RowsIn, r.RowsOut)
	}
}

func paper(t *testing.T, f gen.Funnel) runner.Result {
	c, truth := world(t, f)
	most := heap(t)
	began := time.Now()
	r, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows in %v, most memory %d MiB", r.RowsIn, time.Since(began).Round(time.Millisecond), most()>>20)
	want, twins := map[string]string{}, 0
	for id, truth := range truth {
		want[id] = truth.Reason
		if truth.Twin != "" {
			twins++
		}
	}
	compare(t, r, want, func(id string) string { return truth[id].Plant })
	if twins != f.Duplicates || int(r.RowsOut)-twins != f.Unique {
		t.Errorf("%d twins, %d kept; want %d and %d unique", twins, r.RowsOut, f.Duplicates, f.Unique)
	}
	var counts funnel.Funnel
	if err := json.Unmarshal(resultFiles(t, r)["funnel.json"], &counts); err != nil {
		t.Fatal(err)
	}
	if err := counts.Check(); err != nil {
		t.Error(err)
	}
	removed := []int{f.EvalOverlap, f.Child, f.Voyager, f.Unpopular}
	for i, s := range counts.Steps {
		if int(s.Sum()) != removed[i] || s.Unknown != 0 {
			t.Errorf("%s removed %d (unknown %d), want %d", s.Name, s.Sum(), s.Unknown, removed[i])
		}
	}
	if int(counts.In) != f.Total() || int(counts.Out) != f.Kept() || int(r.RowsOut) != f.Kept() {
		t.Errorf("%d in, %d out; want %d, %d", counts.In, counts.Out, f.Total(), f.Kept())
	}
	return r
}

// heap samples the heap in use until the function is called, which returns the most.
func heap(t *testing.T) func() uint64 {
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapInuse))
			}
		}
	}()
	return func() uint64 { close(stop); <-done; return most.Load() }
}

// The popularity rule is a line of the file: the paper's words as they are, and a bound of
// three, against counts of the truth.
func TestOtherPopularityRules(t *testing.T) {
	t.Parallel()
	c, truth := world(t, gen.Paper.Scale(200))
	here := map[string]int{} // tasks of a site that reach the rule
	for _, r := range truth {
		if r.Reason == "" || r.Reason == gen.Unpopular {
			here[r.Site]++
		}
	}
	ready, _ := rules.ReadyFile("gui")
	text := string(ready)
	cut := strings.Index(text, "    keep: >-")
	for name, rule := range map[string]struct {
		keep    string
		popular func(gen.Truth) bool
	}{
		"as worded":         {`(in_set("similarweb_top100", start_url) || in_set("moz_top500", start_url)) && count_by(site(start_url)) >= 2`, func(r gen.Truth) bool { return r.Listed && here[r.Site] >= 2 }},
		"at least nine":     {`count_by(site(start_url)) >= 9`, func(r gen.Truth) bool { return here[r.Site] >= 9 }},
		"lists alone":       {`in_set("similarweb_top100", start_url) || in_set("moz_top500", start_url)`, func(r gen.Truth) bool { return r.Listed }},
		"all but the lists": {`not (in_set("similarweb_top100", start_url) || in_set("moz_top500", start_url))`, func(r gen.Truth) bool { return !r.Listed }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c
			c.Rules = filepath.Join(t.TempDir(), "rules.yaml")
			c.Out = filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(c.Rules, []byte(text[:cut]+fmt.Sprintf("    keep: '%s'\n", rule.keep)), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), c, quiet())
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for id, r := range truth {
				switch {
				case r.Reason != "" && r.Reason != gen.Unpopular:
					want[id] = r.Reason
				case rule.popular(r):
					want[id] = ""
				default:
					want[id] = gen.Unpopular
				}
			}
			compare(t, r, want, func(id string) string { return truth[id].Plant })
		})
	}
}
