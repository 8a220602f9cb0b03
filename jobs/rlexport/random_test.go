package rlexport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

func quiet() runner.Deps { return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)} }

// exported runs the stage and returns the version and its files.
func exported[R record.Row](t *testing.T, c Config) (runner.Result, []R, map[string][]byte) {
	t.Helper()
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	var rows []R
	for r, err := range datasets.Rows[R](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	files := map[string][]byte{}
	for _, f := range res.Files {
		b, _, err := objstore.ReadAll(t.Context(), v.Store(), datasets.FilesPrefix(v.Location().Name, v.Manifest().Key)+f.Name, 1<<26)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = b
	}
	return res, rows, files
}

// random is n groups of all sorts, and why each is dropped by a maximum of most tokens.
func random(n int, most int) (w world, why map[string]string) {
	r, why := rand.New(rand.NewPCG(1, 2)), map[string]string{}
	for i := range n {
		rewards := make([]float64, 1+r.IntN(5))
		for j := range rewards {
			rewards[j] = float64(r.IntN(2))
			if r.IntN(6) == 0 {
				rewards[j] = r.Float64()
			}
		}
		g := w.group(fmt.Sprintf("task%d", i), rewards...)
		reason := ""
		set := func(s string) {
			if reason == "" {
				reason = s
			}
		}
		unknown, long, idless, bare := false, false, 0, 0
		for m, d := range membersOf(*g) {
			x := w.rollout(d)
			var before []int32
			x.Trajectory.Steps = nil
			for range 1 + r.IntN(4) {
				if r.IntN(4) == 0 {
					before = before[:r.IntN(len(before)+1)]
				}
				prompt := append(slices.Clone(before), int32(r.IntN(3)), int32(r.IntN(3)))
				s := step(prompt, []int32{int32(r.IntN(3)), int32(r.IntN(3))}[:1+r.IntN(2)])
				before = slices.Concat(prompt, s.CompletionIDs)
				x.Trajectory.Steps = append(x.Trajectory.Steps, s)
				long = long || len(before) > most
			}
			switch r.IntN(30) {
			case 0:
				x.Verdict.Reward, g.Draws[m].Reward, unknown = nil, nil, true
			case 1:
				x.Trajectory.Steps[0].PromptTokenIDs = []int32{}
				idless++
			case 2:
				x.Trajectory.Steps = []record.Step{}
				bare++
			}
		}
		if r.IntN(10) == 0 {
			g.Usable = false
			set(ReasonUnusable)
		}
		if unknown {
			set(ReasonNoReward)
		}
		if bare > 0 {
			set("nothing_trained")
		}
		if idless > 0 && idless < len(rewards) {
			set(ReasonMixedTokens)
		}
		if idless == len(rewards) { // nobody counted their tokens either
			set(ReasonNoCount)
		}
		if long {
			set(ReasonTooLong)
		}
		if len(rewards) == 1 {
			set(ReasonOneMember)
		}
		if slices.Max(rewards) == slices.Min(rewards) {
			set(ReasonNoVariance)
		}
		why[g.GroupID] = reason
	}
	return w, why
}

// advantage is GRPO's, written from its formula.
func advantage(reward float64, all []float64, ddof int) float64 {
	var sum, squares float64
	for _, r := range all {
		sum += r
		squares += r * r
	}
	n := float64(len(all))
	return (reward - sum/n) / (math.Sqrt((squares-sum*sum/n)/(n-float64(ddof))) + 1e-6)
}

// A thousand random groups against what must come of them.
func TestThousandGroups(t *testing.T) {
	t.Parallel()
	w, why := random(1000, 14)
	root := t.TempDir()
	if err := w.put(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	for _, ddof := range []int{0, 1} {
		c := Defaults()
		c.In, c.Out, c.MaxTokens, c.Scale.DDof = []string{filepath.Join(root, "groups")}, filepath.Join(root, fmt.Sprint("rl", ddof)), 14, ddof
		res, rows, files := exported[record.RLSample](t, c)
		want, groups, reasons := map[string]int64{}, map[string]record.Group{}, map[string]int64{}
		for _, g := range w.groups {
			groups[g.GroupID] = g
			reasons[why[g.GroupID]]++
		}
		seen, indexes, trajectories := map[string]map[string]bool{}, map[int64]bool{}, map[string]int64{}
		for _, row := range rows {
			g := groups[row.GroupID]
			if why[row.GroupID] != "" {
				t.Fatalf("group %s is there, which is %s", row.GroupID, why[row.GroupID])
			}
			var rewards []float64
			for _, d := range membersOf(g) {
				rewards = append(rewards, *d.Reward)
			}
			if a := advantage(row.Reward, rewards, ddof); math.Abs(*row.Advantage-a) > 1e-9 || row.Reward != rewards[row.Member] {
				t.Fatalf("row %s: reward %v, advantage %v, want %v", row.ID, row.Reward, *row.Advantage, a)
			}
			if indexes[row.Index] {
				t.Fatalf("index %d is there twice", row.Index)
			}
			indexes[row.Index] = true
			if seen[row.GroupID] == nil {
				seen[row.GroupID] = map[string]bool{}
			}
			seen[row.GroupID][row.RolloutID] = true
			trajectories[row.RolloutID]++
			if trajectories[row.RolloutID] > row.Branches {
				t.Fatalf("rollout %s has more than %d rows", row.RolloutID, row.Branches)
			}
			// Its last span ends the row, and is what that step sampled after its prompt.
			span := row.Spans[len(row.Spans)-1]
			s := w.rollout(record.Draw{RolloutID: row.RolloutID}).Trajectory.Steps[span.Step]
			if !slices.Equal(row.Tokens, slices.Concat(s.PromptTokenIDs, s.CompletionIDs)) {
				t.Fatalf("row %s: tokens %v, want those of step %d", row.ID, row.Tokens, span.Step)
			}
			want[row.RolloutID] = row.Branches
		}
		if d := cmp.Diff(want, trajectories); d != "" {
			t.Error(d)
		}
		for id, g := range groups {
			if why[id] == "" && len(seen[id]) != int(g.Members) {
				t.Fatalf("group %s has %d of %d members", id, len(seen[id]), g.Members)
			}
		}
		if len(indexes) != len(rows) || !indexes[0] || !indexes[int64(len(rows)-1)] {
			t.Errorf("%d rows have %d indexes", len(rows), len(indexes))
		}
		var sum groupSummary
		if err := json.Unmarshal(files["rl-export.json"], &sum); err != nil {
			t.Fatal(err)
		}
		out := reasons[""]
		delete(reasons, "")
		if d := cmp.Diff(reasons, sum.Groups.Dropped); d != "" || sum.Groups.Out != out || sum.Groups.In != 1000 || sum.Settings.DDof != ddof || sum.Samples.Branched == 0 {
			t.Errorf("%+v\n%s", sum, d)
		}
		if len(reasons) < 8 || out < 100 {
			t.Errorf("%d groups are left, and dropped %v: the test looks at too little", out, reasons)
		}
		if res.RowsOut != int64(len(rows)) {
			t.Errorf("%d rows, and the result says %d", len(rows), res.RowsOut)
		}
		filesHold(t, files, rows)
	}
}

// filesHold compares the files for trainers with the rows: groups side by side, in the
// order of their indexes.
func filesHold(t *testing.T, files map[string][]byte, rows []record.RLSample) {
	t.Helper()
	slices.SortFunc(rows, func(a, b record.RLSample) int { return int(a.Index - b.Index) })
	i := 0
	lines := bufio.NewScanner(bytes.NewReader(files["slime.jsonl"]))
	for lines.Buffer(nil, 1<<20); lines.Scan(); i++ {
		var s struct {
			GroupIndex     int64 `json:"group_index"`
			Index          int64
			Tokens         []int32
			ResponseLength int64     `json:"response_length"`
			Mask           []int8    `json:"loss_mask"`
			LogProbs       []float32 `json:"rollout_log_probs"`
			Reward         float64
			Metadata       struct {
				Advantage struct {
					DDof  int
					Value float64
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		r := rows[i]
		if s.Index != r.Index || s.GroupIndex != r.GroupIndex || !slices.Equal(s.Tokens, r.Tokens) || s.ResponseLength != r.ResponseLength || !slices.Equal(s.Mask, r.LossMask) ||
			!slices.Equal(s.LogProbs, r.LogProbs) || s.Reward != r.Reward || s.Metadata.Advantage.Value != *r.Advantage {
			t.Fatalf("line %d: %+v, want %+v", i, s, r)
		}
		if i > 0 && r.GroupIndex != rows[i-1].GroupIndex && r.GroupIndex != rows[i-1].GroupIndex+1 {
			t.Fatalf("line %d: group %d after %d", i, r.GroupIndex, rows[i-1].GroupIndex)
		}
	}
	if i != len(rows) {
		t.Errorf("slime.jsonl has %d lines, want %d", i, len(rows))
	}
	i = 0
	parquet := files["verl.parquet"]
	for row, err := range arrowio.ReadParquet(t.Context(), bytes.NewReader(parquet), int64(len(parquet))) {
		if err != nil {
			t.Fatal(err)
		}
		r := rows[i]
		if row["id"] != r.ID || row["uid"] != r.GroupID || len(row["responses"].([]any)) != int(r.ResponseLength) || len(row["attention_mask"].([]any)) != len(r.Tokens) {
			t.Fatalf("row %d: %v, want %+v", i, row, r)
		}
		i++
	}
	if i != len(rows) {
		t.Errorf("verl.parquet has %d rows, want %d", i, len(rows))
	}
}
