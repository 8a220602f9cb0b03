package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// samples are two groups of two members: one with tokens, of which a trajectory has two
// branches, and one with messages only.
func samples() []record.RLSample {
	var list []record.RLSample
	add := func(group int64, member, branch, branches int64, tokens bool, advantage float64) {
		r := record.RLSample{
			GroupID: fmt.Sprintf("g%d", group), GroupIndex: group, Index: int64(len(list)), TaskID: fmt.Sprintf("t%d", group), RolloutID: fmt.Sprintf("r%d-%d", group, member),
			Member: member, Members: 2, Branch: branch, Branches: branches, Reward: float64(member), Advantage: &advantage, Outcome: record.Resolved, Status: "completed",
			Tokens: []int32{}, LossMask: []int8{}, LogProbs: []float32{}, Spans: []record.RLSpan{{Step: branch, Begin: 1, End: 3}}, Trained: 2,
			TokenSource: record.TokensServer, LogProbSource: record.TokensNone, Prompt: []record.RLMessage{}, Messages: []record.RLMessage{}, WeightVersions: []string{"w"}, WeightVersion: "w", Metadata: "{}",
		}
		r.ID = seal.ID(r.GroupID, r.RolloutID, fmt.Sprint(branch))
		if tokens {
			r.Tokens, r.LossMask, r.ResponseLength = []int32{9, 8, 1, 2, 3}, []int8{0, 1, 1}, 3
		} else {
			r.TokenSource, r.Trained, r.Spans = record.TokensNone, 1, []record.RLSpan{{Step: 0, Begin: 1, End: 2}}
			r.Messages = []record.RLMessage{{Role: "user", Content: "mend it", ToolCalls: []record.SFTToolCall{}}, {Role: "assistant", Content: "done", LossMask: 1, ToolCalls: []record.SFTToolCall{}}}
		}
		list = append(list, r)
	}
	add(0, 0, 0, 2, true, -.7)
	add(0, 0, 1, 2, true, -.7)
	add(0, 1, 0, 1, true, .7)
	add(1, 0, 0, 1, false, -.7)
	add(1, 1, 0, 1, false, .7)
	return list
}

// exported writes rows as rl-export does; spoil may change a file's bytes before they are stored.
func exported(t testing.TB, root string, rows []record.RLSample, spoil func(name string, b []byte) []byte) string {
	t.Helper()
	stage := runner.Stage{Name: "rl-export", Version: 1, Settings: struct{}{}, Inputs: []datasets.Input{}}
	c := runner.Default()
	c.In, c.Out = []string{"none"}, root+"/rl"
	quiet := runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)}
	r, err := runner.Batch(t.Context(), c, quiet, stage, func(ctx context.Context, p *runner.Pass[record.RLSample]) error {
		var slime, messages, verl bytes.Buffer
		groups := map[string]bool{}
		for _, s := range rows {
			groups[s.GroupID] = true
			to, write := &slime, export.SlimeLine
			if s.TokenSource == record.TokensNone {
				to, write = &messages, export.RLMessagesLine
			}
			b, err := write(s)
			if err != nil {
				return err
			}
			to.Write(b)
			p.Read(1)
			if err := p.Emit(ctx, s); err != nil {
				return err
			}
		}
		if err := arrowio.WriteParquet(&verl, func(yield func(export.VerlSample, error) bool) {
			for _, s := range rows {
				if s.TokenSource == record.TokensServer && !yield(export.Verl(s), nil) {
					return
				}
			}
		}); err != nil {
			return err
		}
		summary, err := json.Marshal(map[string]any{"groups": map[string]int{"out": len(groups)}, "samples": map[string]int{"out": len(rows)}})
		if err != nil {
			return err
		}
		for _, f := range []struct {
			name string
			b    []byte
		}{{"slime.jsonl", slime.Bytes()}, {"verl.parquet", verl.Bytes()}, {"messages.jsonl", messages.Bytes()}, {"rl-export.json", summary}} {
			if spoil != nil {
				f.b = spoil(f.name, f.b)
			}
			if f.b == nil {
				continue
			}
			if _, err := p.PutFile(ctx, f.name, objstore.Bytes(f.b)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.URI
}

func checked(t testing.TB, uri string, set func(*Config)) (said string, outputs map[string]string, err error) {
	t.Helper()
	c := Config{Config: runner.Default(), Round: 3, URL: "http://model.example/v1", Weight: "w"}
	c.In, c.OutputDir = []string{uri}, t.TempDir()
	if set != nil {
		set(&c)
	}
	var out bytes.Buffer
	err = Run(t.Context(), c, runner.Deps{Stdout: &out, Stderr: new(bytes.Buffer)})
	outputs = map[string]string{}
	for _, name := range []string{"llm-url", "weight-version", "rows"} {
		if b, rerr := os.ReadFile(filepath.Join(c.OutputDir, name)); rerr == nil {
			outputs[name] = string(b)
		}
	}
	return out.String(), outputs, err
}

// A whole export is found whole, and the answer is a trainer's.
func TestWhole(t *testing.T) {
	t.Parallel()
	uri := exported(t, t.TempDir(), samples(), nil)
	said, out, err := checked(t, uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, "2 groups of 4 trajectories in 5 rows, 8 tokens and messages to train, 3 rows with token ids") {
		t.Errorf("it says %q", said)
	}
	if out["llm-url"] != "http://model.example/v1" || out["weight-version"] != "noop-4" || out["rows"] != "5" {
		t.Errorf("outputs %v", out)
	}
	if _, out, err := checked(t, uri, func(c *Config) { c.DryRun = true }); err != nil || len(out) != 0 {
		t.Errorf("a dry run: %v, %v", out, err)
	}
	if _, _, err := checked(t, uri, func(c *Config) { c.Files = strings.Split(uri, "@")[0] + "/files/other/" }); exit.Code(err) != exit.Input {
		t.Errorf("files elsewhere: %v", err)
	}
}

// Rows that a trainer cannot rely on, each with what is said of it.
func TestBadRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func([]record.RLSample) []record.RLSample
		want  string
	}{
		"none":                   {func([]record.RLSample) []record.RLSample { return nil }, "has no rows"},
		"mask of another length": {func(s []record.RLSample) []record.RLSample { s[0].LossMask = s[0].LossMask[:2]; return s }, "a mask of 2"},
		"a bit of the mask":      {func(s []record.RLSample) []record.RLSample { s[1].LossMask = []int8{1, 1, 1}; return s }, "mask[0]"},
		"prompt trained":         {func(s []record.RLSample) []record.RLSample { s[3].Messages[0].LossMask = 1; return s }, "of the user is trained"},
		"a member away":          {func(s []record.RLSample) []record.RLSample { return s[:4] }, "has 1 members, and says it has 2"},
		"a branch away": {func(s []record.RLSample) []record.RLSample {
			s = append(s[:1], s[2:]...)
			for i := range s {
				s[i].Index = int64(i)
			}
			return s
		}, "has 1 branches, and says it has 2"},
		"index twice":        {func(s []record.RLSample) []record.RLSample { s[1].Index = 0; return s }, "has the index 0"},
		"members apart":      {func(s []record.RLSample) []record.RLSample { s[2].Index, s[3].Index = 3, 2; return s }, "not neighbours"},
		"group's index":      {func(s []record.RLSample) []record.RLSample { s[3].GroupIndex, s[4].GroupIndex = 0, 0; return s }, "group_index 0"},
		"nothing to learn":   {func(s []record.RLSample) []record.RLSample { *s[3].Advantage, *s[4].Advantage = 0, 0; return s }, "nothing to learn"},
		"advantages add up":  {func(s []record.RLSample) []record.RLSample { *s[4].Advantage = .8; return s }, "add up to"},
		"some advised":       {func(s []record.RLSample) []record.RLSample { s[4].Advantage = nil; return s }, "1 of 2 members have an advantage"},
		"branches disagree":  {func(s []record.RLSample) []record.RLSample { s[1].Reward = 1; return s }, "differs from the other rows"},
		"another's rollouts": {func(s []record.RLSample) []record.RLSample { s[4].Members = 3; return s }, "others of it 1, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := samples()
			for i := range rows { // each its own
				a := *rows[i].Advantage
				rows[i].Advantage = &a
			}
			uri := exported(t, t.TempDir(), c.spoil(rows), nil)
			_, out, err := checked(t, uri, nil)
			if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, ok := out["weight-version"]; ok {
				t.Errorf("and it names the next weights: %v", out)
			}
		})
	}
}

// What JSON cannot say, Arrow can.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.Inf(1), math.NaN()} {
		r := samples()[3]
		r.Advantage = &f
		all := &rows{groups: map[string]*group{}, lines: make([]line, 5)}
		if err := all.add(r); err == nil || !strings.Contains(err.Error(), "no number") {
			t.Errorf("an advantage of %v: %v", f, err)
		}
	}
}

// Files that do not say what the rows say.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	swap := func(of string, f func([]byte) []byte) func(string, []byte) []byte {
		return func(name string, b []byte) []byte {
			if name == of {
				return f(bytes.Clone(b))
			}
			return b
		}
	}
	for name, c := range map[string]struct {
		spoil func(string, []byte) []byte
		want  string
	}{
		"a line too few":    {swap("slime.jsonl", func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }), "ends before the line"},
		"a line too many":   {swap("slime.jsonl", func(b []byte) []byte { return append(b, b[:bytes.IndexByte(b, '\n')+1]...) }), "is of no row"},
		"a token":           {swap("slime.jsonl", func(b []byte) []byte { return bytes.Replace(b, []byte("[9,8,"), []byte("[9,7,"), 1) }), "line 1 does not say"},
		"messages":          {swap("messages.jsonl", func(b []byte) []byte { return bytes.Replace(b, []byte("done"), []byte("dont"), 1) }), "line 1 does not say"},
		"no messages":       {swap("messages.jsonl", func([]byte) []byte { return nil }), "has no messages.jsonl"},
		"parquet cut":       {swap("verl.parquet", func(b []byte) []byte { return b[:len(b)/2] }), "verl.parquet"},
		"no parquet":        {swap("verl.parquet", func([]byte) []byte { return nil }), "has no verl.parquet"},
		"count":             {swap("rl-export.json", func([]byte) []byte { return []byte(`{"samples":{"out":4},"groups":{"out":2}}`) }), "counts 4 samples"},
		"count of the rows": {swap("rl-export.json", func([]byte) []byte { return []byte("{") }), "rl-export.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri := exported(t, t.TempDir(), samples(), c.spoil)
			if _, _, err := checked(t, uri, nil); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("changed afterwards", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		uri := exported(t, root, samples(), nil)
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == "slime.jsonl" {
				return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte("{}\n"), 0o644))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := checked(t, uri, nil); exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "was written with") {
			t.Errorf("%v", err)
		}
	})
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Config){
		"two":   func(c *Config) { c.In = append(c.In, "b") },
		"plan":  func(c *Config) { c.Mode = runner.ModePlan },
		"shard": func(c *Config) { c.Shard = runner.Shard{I: 1, N: 2} },
		"round": func(c *Config) { c.Round = -1 },
		"none":  func(c *Config) { c.In = nil },
	} {
		if _, _, err := checked(t, "x", set); exit.Code(err) != exit.Config {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := checked(t, t.TempDir()+"/absent", nil); exit.Code(err) != exit.Input {
		t.Errorf("absent: %v", err)
	}
}
