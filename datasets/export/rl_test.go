package export

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
)

// sampled draws a rollout whose prompts mostly go on from what was before, and sometimes
// drop, change or repeat some of it.
func sampled(t *rapid.T) record.Rollout {
	id := rapid.Int32Range(0, 3) // few, so that prompts begin alike by chance
	var before []int32
	r := record.Rollout{RolloutID: "r", TaskID: "t", Policy: "m", Harness: "h"}
	probs := rapid.SampledFrom([]string{"all", "none", "some"}).Draw(t, "probs")
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		prompt := slices.Clone(before)
		switch rapid.IntRange(0, 5).Draw(t, "drift") {
		case 0:
			prompt = rapid.SliceOfN(id, 1, 8).Draw(t, "fresh")
		case 1:
			prompt = prompt[:rapid.IntRange(0, len(prompt)).Draw(t, "cut")]
		}
		prompt = append(prompt, rapid.SliceOfN(id, 0, 4).Draw(t, "said")...)
		if len(prompt) == 0 {
			prompt = []int32{1}
		}
		s := record.Step{PromptTokenIDs: prompt, CompletionIDs: rapid.SliceOfN(id, 1, 4).Draw(t, "sampled"), LogProbs: []float32{}, FinishReason: "stop",
			WeightVersion: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "weights")}
		if probs == "all" || probs == "some" && rapid.Bool().Draw(t, "given") {
			for range s.CompletionIDs {
				s.LogProbs = append(s.LogProbs, -float32(rapid.IntRange(1, 99).Draw(t, "prob"))/10)
			}
		}
		before = slices.Concat(prompt, s.CompletionIDs)
		r.Trajectory.Steps = append(r.Trajectory.Steps, s)
	}
	return r
}

// plainRow is a branch as the slow reference has it.
type plainRow struct {
	tokens []int32
	prompt int
	mask   []int8
	probs  []float32 // nil when a step has none
}

// plain makes branches without going along: a branch is the whole of its last step, and a
// token of it is sampled if and only if it lies where one of its steps sampled.
func plain(r record.Rollout) (rows []plainRow) {
	text := func(ids []int32) string {
		var b strings.Builder
		for _, id := range ids {
			b.WriteRune(rune('a' + id))
		}
		return b.String()
	}
	steps := r.Trajectory.Steps
	for from := 0; from < len(steps); {
		to := from
		for to+1 < len(steps) && strings.HasPrefix(text(steps[to+1].PromptTokenIDs), text(steps[to].PromptTokenIDs)+text(steps[to].CompletionIDs)) {
			to++
		}
		row := plainRow{tokens: slices.Concat(steps[to].PromptTokenIDs, steps[to].CompletionIDs), prompt: len(steps[from].PromptTokenIDs), probs: []float32{}}
		known := true
		for i := row.prompt; i < len(row.tokens); i++ {
			mask, prob := int8(0), float32(0)
			for _, s := range steps[from : to+1] {
				if j := i - len(s.PromptTokenIDs); j >= 0 && j < len(s.CompletionIDs) {
					mask = 1
					if len(s.LogProbs) == 0 {
						known = false
					} else {
						prob = s.LogProbs[j]
					}
				}
			}
			row.mask, row.probs = append(row.mask, mask), append(row.probs, prob)
		}
		if !known {
			row.probs = nil
		}
		rows, from = append(rows, row), to+1
	}
	return rows
}

func TestRLEqualsASlowReference(t *testing.T) {
	t.Parallel()
	branched := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			r := sampled(t)
			rows, err := RL(r)
			want := plain(r)
			if err != nil || len(rows) != len(want) {
				t.Fatalf("%d rows, %v; want %d", len(rows), err, len(want))
			}
			if len(rows) > 1 {
				branched++
			}
			if err := CheckRLSource(rows, r); err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				w := want[i]
				trained := 0
				for _, m := range w.mask {
					trained += int(m)
				}
				source := record.TokensServer
				if w.probs == nil {
					w.probs, source = []float32{}, record.TokensNone
				}
				if !slices.Equal(row.Tokens, w.tokens) || int(row.ResponseLength) != len(w.tokens)-w.prompt || !slices.Equal(row.LossMask, w.mask) ||
					!slices.Equal(row.LogProbs, w.probs) || row.LogProbSource != source || int(row.Trained) != trained || row.Branch != int64(i) || row.Branches != int64(len(want)) {
					t.Fatalf("row %d: %+v\nwant %+v", i, row, w)
				}
				if err := CheckRL(row); err != nil {
					t.Fatal(err)
				}
				flip := rapid.IntRange(0, len(row.LossMask)-1).Draw(t, "flip")
				row.LossMask = slices.Clone(row.LossMask)
				row.LossMask[flip] ^= 1
				if CheckRL(row) == nil {
					t.Fatalf("bit %d of the mask was flipped, and nobody saw it", flip)
				}
			}
		}
	})
	if branched < 100 {
		t.Errorf("only %d of the rollouts had branches; the test looks at nothing", branched)
	}
}

func TestCheckRLSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := record.Rollout{RolloutID: "r", Trajectory: record.Trajectory{Steps: []record.Step{
		{PromptTokenIDs: []int32{1, 2}, CompletionIDs: []int32{3}, LogProbs: []float32{-1}},
		{PromptTokenIDs: []int32{1, 2, 3, 4}, CompletionIDs: []int32{5, 6}, LogProbs: []float32{-2, -3}},
	}}}
	for name, change := range map[string]func(*record.RLSample){
		"mask too short":        func(r *record.RLSample) { r.LossMask = r.LossMask[:3] },
		"response too long":     func(r *record.RLSample) { r.ResponseLength++ },
		"no prompt":             func(r *record.RLSample) { r.Tokens = r.Tokens[2:] },
		"log-prob of the tools": func(r *record.RLSample) { r.LogProbs[1] = -1 },
		"log-prob is NaN":       func(r *record.RLSample) { r.LogProbs[0] = float32(math.NaN()) },
		"log-probs too short":   func(r *record.RLSample) { r.LogProbs = r.LogProbs[:3] },
		"log-probs of nobody":   func(r *record.RLSample) { r.LogProbSource = record.TokensNone },
		"span of nothing":       func(r *record.RLSample) { r.Spans[0].End = r.Spans[0].Begin },
		"spans overlap":         func(r *record.RLSample) { r.Spans[1].Begin = 0 },
		"count":                 func(r *record.RLSample) { r.Trained-- },
		"nothing trained": func(r *record.RLSample) {
			r.Spans, r.LossMask, r.LogProbs, r.Trained = nil, make([]int8, 4), make([]float32, 4), 0
		},
		"reward is NaN":         func(r *record.RLSample) { r.Reward = math.NaN() },
		"advantage is infinite": func(r *record.RLSample) { inf := math.Inf(1); r.Advantage = &inf },
		"source":                func(r *record.RLSample) { r.TokenSource = "guess" },
		"tokens of nobody":      func(r *record.RLSample) { r.TokenSource = record.TokensNone },
		"prompt is trained":     func(r *record.RLSample) { r.Prompt = []record.RLMessage{{Role: "user", LossMask: 1}} },
		"branch":                func(r *record.RLSample) { r.Branch = 1 },
	} {
		rows, err := RL(r)
		if err != nil || len(rows) != 1 || CheckRL(rows[0]) != nil {
			t.Fatalf("%+v, %v", rows, err)
		}
		change(&rows[0])
		if CheckRL(rows[0]) == nil {
			t.Errorf("%s: nobody saw it", name)
		}
	}
	for name, change := range map[string]func(*record.RLSample){
		"prompt token":  func(r *record.RLSample) { r.Tokens[0]++ },
		"tool token":    func(r *record.RLSample) { r.Tokens[3]++ },
		"sampled token": func(r *record.RLSample) { r.Tokens[5]++ },
		"log-prob":      func(r *record.RLSample) { r.LogProbs[2] = -9 },
		"step left out": func(r *record.RLSample) { r.Spans = r.Spans[:1] },
	} {
		rows, _ := RL(r)
		change(&rows[0])
		if CheckRLSource(rows, r) == nil {
			t.Errorf("%s: nobody saw it", name)
		}
	}
}

func TestRLWithoutTokenIDs(t *testing.T) {
	t.Parallel()
	r := example()
	rows, err := RL(r)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	row := rows[0]
	var got []string
	for _, m := range row.Messages {
		got = append(got, map[int8]string{0: "-", 1: "+"}[m.LossMask]+m.Content)
	}
	// All that the policy wrote and saw again is trained, also what could not be followed.
	want := []string{"-s", "-u", "+look", "-out", "-format!", "+malformed", "+cut o", "+submit"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if row.TokenSource != record.TokensNone || len(row.Tokens) != 0 || row.Trained != 4 || *row.NTokens != 107 || len(row.Prompt) != 2 {
		t.Errorf("%+v", row)
	}
	if err := CheckRL(row); err != nil {
		t.Error(err)
	}
	for i := range row.Messages {
		row.Messages[i].LossMask ^= 1
		if CheckRL(row) == nil {
			t.Errorf("message %d was flipped, and nobody saw it", i)
		}
		row.Messages[i].LossMask ^= 1
	}
	r.Trajectory.Steps[1].PromptTokenIDs, r.Trajectory.Steps[1].CompletionIDs = []int32{1}, []int32{2} // one of them does not help
	if rows, err := RL(r); err != nil || rows[0].TokenSource != record.TokensNone {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestRLRefuses(t *testing.T) {
	t.Parallel()
	step := record.Step{PromptTokenIDs: []int32{1}, CompletionIDs: []int32{2, 3}}
	for _, c := range []struct {
		name  string
		steps []record.Step
		probs []float32
		want  error
	}{
		{"no step", nil, nil, ErrNothingTrained},
		{"no message of the policy", []record.Step{{}}, nil, ErrNothingTrained},
		{"NaN", []record.Step{step}, []float32{-1, float32(math.NaN())}, ErrBadLogProb},
		{"minus infinity", []record.Step{step}, []float32{-1, float32(math.Inf(-1))}, ErrBadLogProb},
		{"a probability", []record.Step{step}, []float32{-1, .5}, ErrBadLogProb},
	} {
		r := record.Rollout{RolloutID: "r", Trajectory: record.Trajectory{Steps: c.steps}}
		if len(c.probs) > 0 {
			r.Trajectory.Steps[0].LogProbs = c.probs
		}
		if rows, err := RL(r); !errors.Is(err, c.want) || len(rows) != 1 || rows[0].RolloutID != "r" {
			t.Errorf("%s: %v, %+v", c.name, err, rows)
		}
	}
	step.LogProbs = []float32{-1}
	if _, err := RL(record.Rollout{RolloutID: "r", Trajectory: record.Trajectory{Steps: []record.Step{step}}}); err == nil || !strings.Contains(err.Error(), "step 0 has 1 log-probabilities for 2 tokens") {
		t.Errorf("%v", err)
	}
}

// The lines are what the trainers' readers look for, by name and type.
func TestRLLines(t *testing.T) {
	t.Parallel()
	r := record.Rollout{RolloutID: "r", TaskID: "t", Trajectory: record.Trajectory{
		Messages: []record.Message{{Role: "user", Content: "u <b>", Step: -1, Kept: true}},
		Steps: []record.Step{
			{PromptTokenIDs: []int32{1, 2}, CompletionIDs: []int32{3}, LogProbs: []float32{-1}},
			{PromptTokenIDs: []int32{1, 2, 3, 4}, CompletionIDs: []int32{5, 6}, LogProbs: []float32{-2, -3}},
		}}}
	rows, err := RL(r)
	if err != nil {
		t.Fatal(err)
	}
	row := rows[0]
	a := .5
	row.ID, row.GroupID, row.Index, row.GroupIndex, row.Status, row.Reward, row.Advantage = "id", "g", 7, 2, "time_exceeded", 1, &a
	line, err := SlimeLine(row)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"group_index":2,"index":7,"session_id":"id","prompt":[{"role":"user","content":"u \u003cb\u003e"}],"tokens":[1,2,3,4,5,6],"response":"","response_length":4,"label":null,"reward":1,"loss_mask":[1,0,1,1],"weight_versions":[""],"rollout_log_probs":[-1,0,-2,-3],"remove_sample":false,"status":"truncated","metadata":{}}` + "\n"
	if d := cmp.Diff(want, string(line)); d != "" {
		t.Error(d)
	}
	v := Verl(row)
	if v.UID != "g" || !slices.Equal(v.Prompts, []int32{1, 2}) || !slices.Equal(v.Responses, []int32{3, 4, 5, 6}) || !slices.Equal(v.AttentionMask, []int8{1, 1, 1, 1, 1, 1}) ||
		!slices.Equal(v.ResponseMask, []int8{1, 0, 1, 1}) || !slices.Equal(v.Advantages, []float32{.5, 0, .5, .5}) || !slices.Equal(v.OldLogProbs, []float32{-1, 0, -2, -3}) || v.NumTurns != 2 {
		t.Errorf("%+v", v)
	}
	row.LogProbSource, row.LogProbs = record.TokensNone, []float32{}
	line, _ = SlimeLine(row)
	var back map[string]any
	if err := json.Unmarshal(line, &back); err != nil || back["rollout_log_probs"] != nil {
		t.Errorf("%s, %v; want null", line, err)
	}
}
