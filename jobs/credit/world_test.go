package credit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/llm/llmtest"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/internal/seal"
)

// teacher is the policy of all rollouts here.
const teacher = "teacher-1"

// played is a rollout that has n steps and an outcome. Its task says which one it is, so that a scripted
// annotator can tell.
func played(name string, o record.Outcome, n int) record.Rollout {
	zero := int64(0)
	r := record.Rollout{
		RolloutID: seal.ID(name), TaskID: name, Policy: teacher, Harness: "h",
		Trajectory: record.Trajectory{
			ExitStatus: record.ExitSubmitted, DiffSHA256: seal.Bytes(nil), Steps: []record.Step{},
			Tools:    `[{"type":"function","function":{"name":"bash"}}]`,
			Messages: []record.Message{{Role: "system", Content: "Be good.", Step: -1, Kept: true, ToolCalls: []record.ToolCall{}}, {Role: "user", Content: "Mend " + name + "!", Step: -1, Kept: true, ToolCalls: []record.ToolCall{}}},
		},
		Verdict: record.Verdict{
			Outcome: o, Reward: o.Reward(), Reason: "said so", Dropped: []string{},
			Tests: []record.TestResult{{Name: "TestOne", Kind: "fail_to_pass", Status: record.TestFailed}, {Name: "TestTwo", Kind: "pass_to_pass", Status: record.TestPassed}},
		},
	}
	for i := range n {
		call := record.ToolCall{ID: fmt.Sprint("c", i), Name: "bash", Arguments: fmt.Sprintf(`{"command":"look %d"}`, i)}
		r.Trajectory.Messages = append(r.Trajectory.Messages,
			record.Message{Role: "assistant", Content: fmt.Sprintf("I do %d.", i), Step: int64(i), Kept: true, ToolCalls: []record.ToolCall{call}},
			record.Message{Role: "tool", Content: fmt.Sprintf("seen %d", i), ToolCallID: call.ID, Step: int64(i), Kept: true, ToolCalls: []record.ToolCall{}})
		seen := fmt.Sprintf("seen %d", i)
		r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{
			FinishReason: "tool_calls", DiffSHA256: seal.Bytes(nil), PromptTokenIDs: []int32{}, CompletionIDs: []int32{}, LogProbs: []float32{},
			Actions: []record.Action{{Command: fmt.Sprintf("look %d", i), ToolCallID: call.ID, ExitCode: &zero, Observation: record.Text{Value: seen, Bytes: int64(len(seen))}}},
		})
	}
	return r
}

// save writes a dataset below root and returns its path.
func save[R record.Row](t *testing.T, root, name string, rows ...R) string {
	t.Helper()
	store, err := datasets.Stores(t.Context(), "file://"+root)
	if err == nil {
		err = commit(store, name, rows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, name)
}

func commit[R record.Row](store objstore.Store, name string, rows ...R) error {
	_, err := fixture.Commit(context.Background(), store, name, slices.Values(rows), datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}})
	return err
}

// given is a configuration that asks a server about some rollouts.
func given(t *testing.T, url string, rows ...record.Rollout) Config {
	t.Helper()
	root := t.TempDir()
	c := Defaults()
	c.In, c.Out = []string{save(t, root, "rollouts", rows...)}, filepath.Join(root, "credit")
	c.LLM.URL, c.LLM.Model, c.LLM.MaxWait = url, teacher, time.Millisecond
	c.MaxRetries = 0
	return c
}

func deps() runner.Deps {
	return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Backoff: time.Millisecond, Patience: 10 * time.Millisecond}
}

// rows is what a version holds, by the task that is the rollout's name.
func rows(t *testing.T, res runner.Result) map[string]record.Credit {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]record.Credit{}
	for r, err := range datasets.Rows[record.Credit](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		out[r.TaskID] = r
	}
	return out
}

// file is a file beside a version.
func file(t *testing.T, res runner.Result, name string) []byte {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := objstore.ReadAll(t.Context(), v.Store(), datasets.FilesPrefix("credit", v.Manifest().Key)+name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	taskOf = regexp.MustCompile(`Mend ([^!]+)!`)
	lastOf = regexp.MustCompile(`--- step (\d+) ---`)
)

// about is which rollout a request asks about, how many steps it shows, and how often it
// was answered before.
func about(r llmtest.Request) (name string, steps, before int) {
	var doc struct {
		Messages []struct{ Role, Content string }
	}
	if json.Unmarshal(r.Body, &doc) != nil {
		return "", 0, 0
	}
	for _, m := range doc.Messages {
		if m.Role == "assistant" {
			before++
		}
	}
	if len(doc.Messages) < 2 { // somebody looks whether we are there
		return "", 0, 0
	}
	q := doc.Messages[1].Content
	if m := taskOf.FindStringSubmatch(q); m != nil {
		name = m[1]
	}
	return name, len(lastOf.FindAllString(q, -1)), before
}

// annotator answers by the name of the rollout: what answers has for it, one after the
// other and the last again and again, else something that is right.
func annotator(t *testing.T, answers map[string][]string) *llmtest.Server {
	return llmtest.New(t, []string{teacher}, func(_ int, r llmtest.Request) llmtest.Reply {
		name, steps, before := about(r)
		if list := answers[name]; len(list) > 0 {
			return llmtest.Text(list[min(before, len(list)-1)])
		}
		return llmtest.Text(right(steps))
	})
}

// right is an answer that keeps all rules about n steps: .4, up by .2 in two steps, down.
func right(n int) string {
	return fmt.Sprintf("```json\n[%s]\n```", strings.Join([]string{
		`{"step": 0, "probability": 0.4, "reasoning": "begins"}`,
		`{"step": 2, "probability": 0.6, "reasoning": "finds the cause"}`,
		fmt.Sprintf(`{"step": %d, "probability": 0.1, "reasoning": "Critical mistake: hands in the wrong thing"}`, n-1),
	}, ","))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
