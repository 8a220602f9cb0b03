package rlexport

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/imports"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The same inputs give the same rows and files, until Version rises.
func TestOutputGolden(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := &world{}
	worlds["good"](w)
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if err := tasks(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("version %d\n", Version)
	c := Defaults()
	c.In, c.Out = []string{filepath.Join(root, "groups")}, filepath.Join(root, "rl")
	_, samples, files := exported[record.RLSample](t, c)
	got += hashes(t, "groups", samples, files)
	c.Form, c.In, c.Out, c.PassRate = FormPrompts, []string{filepath.Join(root, "tasks")}, filepath.Join(root, "prompts"), filepath.Join(root, "rates")
	_, prompts, files := exported[record.RLPrompt](t, c)
	got += hashes(t, "prompts", prompts, files)
	const golden = "testdata/output.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the output for the same inputs has changed: raise Version, and run with -update\n%s", d)
	}
}

// hashes names the rows, and the files that are text: a library decides how Parquet packs.
func hashes[R record.Row](t *testing.T, form string, rows []R, files map[string][]byte) string {
	t.Helper()
	b, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%s rows %d %s\n", form, len(rows), seal.Bytes(b))
	for name, b := range files {
		if !strings.HasSuffix(name, ".parquet") {
			out += fmt.Sprintf("%s %s %s\n", form, name, seal.Bytes(b))
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// Weights that changed within a trajectory are told, and a step that does not know its own
// has those of its group.
func TestWeightVersions(t *testing.T) {
	t.Parallel()
	w := &world{}
	g := w.group("a", 1, 0)
	w.rollout(g.Draws[0]).Trajectory.Steps[1].WeightVersion = "8"
	for i := range w.rollout(g.Draws[1]).Trajectory.Steps {
		w.rollout(g.Draws[1]).Trajectory.Steps[i].WeightVersion = ""
	}
	root := t.TempDir()
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.In, c.Out = []string{filepath.Join(root, "groups")}, filepath.Join(root, "rl")
	_, rows, _ := exported[record.RLSample](t, c)
	slices.SortFunc(rows, func(a, b record.RLSample) int { return int(a.Member - b.Member) })
	a, b := rows[0], rows[1]
	if !a.WeightMixed || a.WeightVersion != "" || !slices.Equal(a.WeightVersions, []string{"7", "8"}) || b.WeightMixed || b.WeightVersion != "7" || !slices.Equal(b.WeightVersions, []string{"7"}) {
		t.Errorf("%+v\n%+v", a, b)
	}
	c.WeightVersion = "7"
	res, err := Run(t.Context(), c, quiet())
	if err != nil || res.RowsOut != 0 || res.Dropped[ReasonStale] != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	c.Policy = "nobody"
	if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), `no group is of the policy "nobody" of --policy; there is `) {
		t.Error(err)
	}
}

// Two group datasets, each with its rollouts, some of them under the same ids: those of
// another round are never taken.
func TestEachGroupDatasetHasItsRollouts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var in []string
	for round, answer := range []int32{40, 50} {
		w := &world{}
		g := w.group("a", 1, 0)
		g.GroupID, g.Round = seal.ID("a", fmt.Sprint(round)), int64(round)
		for i := range w.rollouts {
			w.rollouts[i].Trajectory.Steps = []record.Step{step([]int32{1}, []int32{answer})}
		}
		dir := filepath.Join(root, fmt.Sprint(round))
		if err := w.put(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		in = append(in, filepath.Join(dir, "groups"))
	}
	c := Defaults()
	c.In, c.Out = in, filepath.Join(root, "rl")
	_, rows, _ := exported[record.RLSample](t, c)
	for _, r := range rows {
		if want := []int32{40, 50}[r.GroupIndex]; len(rows) != 4 || r.Tokens[1] != want {
			t.Errorf("group %d has the token %d, want %d", r.GroupIndex, r.Tokens[1], want)
		}
	}
	c.Rollouts = []string{in[0] + "-rollouts", in[1] + "-rollouts"}
	if res, err := Run(t.Context(), c, quiet()); err != nil || res.Status != runner.StatusAlready {
		t.Errorf("the same rollouts by name: %+v, %v", res, err)
	}
}

// What a prompt says is what its task says: imported again, the tasks are the same.
func TestPromptsAreTasksAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := tasks(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.Form, c.In, c.Out = FormPrompts, []string{filepath.Join(root, "tasks")}, filepath.Join(root, "prompts")
	_, rows, files := exported[record.RLPrompt](t, c)
	path := filepath.Join(root, "prompts.jsonl")
	if err := os.WriteFile(path, files["prompts-slime.jsonl"], 0o644); err != nil {
		t.Fatal(err)
	}
	format, err := imports.Detect(t.Context(), path)
	if err != nil || format.Name != "orchard-rl" {
		t.Fatalf("%v, %v", format, err)
	}
	n := 0
	err = imports.Read(t.Context(), path, func(row imports.Row, problem *imports.Problem) error {
		if problem != nil {
			return exit.Inputf("%v", problem)
		}
		p, problem := format.Parse(row, "")
		if problem != nil {
			return exit.Inputf("%v", problem)
		}
		got, want := p.Task, rows[n]
		if got.TaskID != want.TaskID || got.Source != "set" || got.Statement != want.Statement || got.GoldPatch.Value != want.Label || got.Repo != want.Repo ||
			got.BaseCommit != "0123456789" || got.LogParser != "go-test-json" || !slices.Equal(got.TestCmds, []string{"go test ./..."}) || !slices.Equal(got.PreCommands, []string{"true"}) ||
			!slices.Equal(got.FailToPass, []string{"TestX"}) || got.Image != "registry.example/"+want.TaskID || got.CreatedAt == nil {
			t.Errorf("prompt %d: %+v", n, got)
		}
		n++
		return nil
	})
	if err != nil || n != len(rows) || n == 0 {
		t.Errorf("%d of %d prompts, %v", n, len(rows), err)
	}
	var nemo struct {
		Params struct {
			Input []struct{ Role, Content string }
		} `json:"responses_create_params"`
	}
	first, _, _ := strings.Cut(string(files["prompts-nemo.jsonl"]), "\n")
	if err := json.Unmarshal([]byte(first), &nemo); err != nil || nemo.Params.Input[0].Role != "user" || nemo.Params.Input[0].Content != rows[0].Statement {
		t.Errorf("%s, %v", first, err)
	}
}

// A group whose rollouts are read before those of another is no other, whatever its ids.
func TestIDsThatBeginAlike(t *testing.T) {
	t.Parallel()
	w := &world{}
	for i, id := range []string{"a", "a-b", "a/b", "a0"} {
		g := w.group(fmt.Sprint("t", i), 1, 0)
		old := g.Draws[0]
		w.rollout(old).RolloutID = id
		g.Draws[0].RolloutID = id
	}
	root := t.TempDir()
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.In, c.Out = []string{filepath.Join(root, "groups")}, filepath.Join(root, "rl")
	if _, rows, _ := exported[record.RLSample](t, c); len(rows) != 8 {
		t.Errorf("%d rows, want 8", len(rows))
	}
}

// Two of four: the formula says which numbers, and the row which formula.
func TestAdvantages(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.group("a", 1, 0, 1, 0)
	root := t.TempDir()
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		advantage string
		ddof      int
		want      float64 // of a member with the reward 1; 0: null
	}{
		{AdvantageGRPO, 0, .5 / (.5 + 1e-6)}, {AdvantageGRPO, 1, .5 / (math.Sqrt(1./3) + 1e-6)}, {AdvantageDrGRPO, 1, .5}, {AdvantageNone, 1, 0},
	} {
		cfg := Defaults()
		cfg.In, cfg.Out, cfg.Advantage, cfg.Scale.DDof = []string{filepath.Join(root, "groups")}, filepath.Join(root, "rl"), c.advantage, c.ddof
		_, rows, _ := exported[record.RLSample](t, cfg)
		for _, r := range rows {
			said := fmt.Sprintf(`"advantage":{"estimator":%q,"ddof":%d,"eps":0.000001,`, c.advantage, c.ddof)
			switch {
			case !strings.Contains(r.Metadata, said):
				t.Errorf("%s: metadata %s", c.advantage, r.Metadata)
			case c.want == 0 && r.Advantage != nil, c.want != 0 && r.Advantage == nil:
				t.Errorf("%s: advantage %v", c.advantage, r.Advantage)
			case c.want != 0 && math.Abs(*r.Advantage-c.want*(2*r.Reward-1)) > 1e-12:
				t.Errorf("%s, ddof %d: advantage %v of the reward %v, want %v", c.advantage, c.ddof, *r.Advantage, r.Reward, c.want)
			}
		}
		if len(rows) != 4 {
			t.Errorf("%s: %d rows", c.advantage, len(rows))
		}
	}
}

// However many groups there are, a few are in memory.
func TestMemoryIsBounded(t *testing.T) {
	if os.Getenv("ORCHARD_SOAK") != "1" {
		t.Skip("writes a gigabyte; ORCHARD_SOAK=1")
	}
	w := &world{}
	root := t.TempDir()
	long := make([]int32, 30_000)
	for i := range long {
		long[i] = int32(i * 7919 % 150_000)
	}
	for i := range 40 {
		w.group(fmt.Sprint("t", i), 1, 0, 1, 0, 1, 0, 1, 0)
	}
	for i := range w.rollouts { // steps of one array, so that making them takes no memory
		steps := w.rollouts[i].Trajectory.Steps[:0]
		for n := 1000; n+100 < len(long); n += 1000 {
			steps = append(steps, step(long[:n], long[n:n+100]))
		}
		w.rollouts[i].Trajectory.Steps = steps
	}
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	*w = world{}
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick, most := time.NewTicker(20*time.Millisecond), uint64(0)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			case <-done:
				peak <- most
				return
			}
		}
	}()
	c := Defaults()
	c.In, c.Out = []string{filepath.Join(root, "groups")}, filepath.Join(root, "rl")
	res, err := Run(t.Context(), c, quiet())
	close(done)
	most := <-peak
	t.Logf("%d rows, at most %d MB", res.RowsOut, most>>20)
	if err != nil || most > 600<<20 {
		t.Errorf("%d MB, %v", most>>20, err)
	}
}
