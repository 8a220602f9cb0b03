package sftexport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

const tools = `[{"type":"function","function":{"name":"bash"}}]`

func rollout(id string, o record.Outcome, tokens int64) record.Rollout {
	return record.Rollout{
		RolloutID: id, TaskID: "t", Policy: "m", Harness: "h",
		Verdict: record.Verdict{Outcome: o, Reward: o.Reward(), Dropped: []string{}, Tests: []record.TestResult{}},
		Trajectory: record.Trajectory{
			Tools: tools,
			Steps: []record.Step{{FinishReason: "tool_calls", PromptTokens: &tokens, CompletionTokens: &tokens,
				Actions: []record.Action{}, PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{}}},
			Messages: []record.Message{
				{Role: "user", Content: "fix it", Step: -1, Kept: true, ToolCalls: []record.ToolCall{}},
				{Role: "assistant", Content: "é <b>", Kept: true, ToolCalls: []record.ToolCall{{ID: "c", Name: "bash", Arguments: `{"command":"ls"}`}}},
			},
		},
	}
}

// given writes a rollout dataset and returns the configuration that exports it.
func given(t *testing.T, rows ...record.Rollout) Config {
	t.Helper()
	root := t.TempDir()
	c := Defaults()
	c.In, c.Out = []string{fixture.Dataset(t, root, "rollouts", "distill", rows)}, filepath.Join(root, "sft")
	return c
}

func quiet() runner.Deps { return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)} }

func TestEveryRolloutIsExportedOrCounted(t *testing.T) {
	t.Parallel()
	odd := rollout("d", record.Resolved, 10)
	odd.Trajectory.Messages[1].ToolCalls[0].Name = "edit"
	rows := []record.Rollout{
		rollout("a", record.Resolved, 10), rollout("b", record.Unresolved, 10), rollout("c", record.TaskInvalid, 10), odd,
		rollout("e", record.Resolved, 1000),
	}
	for _, c := range []struct {
		name string
		keep string
		most int64
		out  int64
		drop map[string]int64
	}{
		{"resolved", KeepResolved, 0, 2, map[string]int64{ReasonNotResolved: 1, ReasonUnknown: 1, "undefined_tool": 1}},
		{"graded", KeepGraded, 0, 3, map[string]int64{ReasonUnknown: 1, "undefined_tool": 1}},
		{"short", KeepResolved, 100, 1, map[string]int64{ReasonNotResolved: 1, ReasonUnknown: 1, "undefined_tool": 1, ReasonTooLong: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := given(t, rows...)
			cfg.Keep, cfg.MaxTokens = c.keep, c.most
			res, err := Run(t.Context(), cfg, quiet())
			if err != nil || res.RowsOut != c.out || res.RowsIn != 5 {
				t.Fatalf("%+v, %v", res, err)
			}
			if d := cmp.Diff(c.drop, res.Dropped); d != "" {
				t.Error(d)
			}
			again, err := Run(t.Context(), cfg, quiet())
			if err != nil || again.Status != runner.StatusAlready || again.Digest != res.Digest {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// The files beside the dataset hold its rows, as loaders read them.
func TestFilesForTrainers(t *testing.T) {
	t.Parallel()
	cfg := given(t, rollout("a", record.Resolved, 10), rollout("b", record.Resolved, 10))
	res, err := Run(t.Context(), cfg, quiet())
	if err != nil || len(res.Files) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, _, err := objstore.ReadAll(t.Context(), v.Store(), datasets.FilesPrefix("sft", v.Manifest().Key)+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var ids []string
	for s := bufio.NewScanner(bytes.NewReader(read("sft.jsonl"))); s.Scan(); {
		var row struct {
			ID       string
			Messages []map[string]any
		}
		if err := json.Unmarshal(s.Bytes(), &row); err != nil || row.Messages[1]["content"] != "é <b>" || row.Messages[1]["loss_mask"] != 1.0 {
			t.Fatalf("%s: %v", s.Bytes(), err)
		}
		ids = append(ids, row.ID)
	}
	parquet := read("train-00000-of-00001.parquet")
	for row, err := range arrowio.ReadParquet(t.Context(), bytes.NewReader(parquet), int64(len(parquet))) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row["id"].(string))
	}
	if got := strings.Join(ids, " "); got != "a b a b" {
		t.Errorf("ids %s", got)
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.In, c.Out, c.Keep, c.MaxTokens = []string{"x"}, "y", "all", -1
	err := c.Validate()
	if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), `--keep: "all"`) || !strings.Contains(err.Error(), "--max-tokens") {
		t.Errorf("%v", err)
	}
}
