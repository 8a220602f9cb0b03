package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
)

func rollout(task string, index int64, o record.Outcome) record.Rollout {
	n := int64(100)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return record.Rollout{
		RolloutID: task + string(rune('0'+index)), TaskID: task, Language: "go", Policy: "scripted", Harness: "mini-swe-v2", Index: index,
		Trajectory: record.Trajectory{
			ExitStatus: record.ExitSubmitted, Steps: make([]record.Step, 3), Diff: record.Text{Value: "+x</script><b>"},
			Messages: []record.Message{{Role: "assistant", Content: "</script><script>alert(1)</script>", Step: 0, Kept: true}},
		},
		Verdict: record.Verdict{Outcome: o, Reward: o.Reward()},
		Usage:   record.Usage{ModelCalls: 3, PromptTokens: &n, CompletionTokens: &n},
		Span:    record.Span{Started: start, Ended: start.Add(2 * time.Second)},
	}
}

func example() *Summary {
	s := NewSummary()
	s.TasksIn, s.SFTRows = 3, 2
	for i, o := range []record.Outcome{record.Resolved, record.Unresolved, record.Resolved, record.TaskInvalid} {
		s.Add(rollout("t"+string(rune('a'+i/2)), int64(i), o))
	}
	return s
}

func TestTableSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := example().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `tasks           3  
rollouts        4  2 tasks, 2 solved at least once
  resolved      2  reward 1
  unresolved    1  reward 0
  task_invalid  1  no reward
SFT rows        2  
2 of 3 rollouts resolved: 66.7 % (95 % interval 20.8 to 93.9); beware: 25.0 % of all rollouts have no reward; policy scripted, harness mini-swe-v2
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Published values of the score interval.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n   int64
		lo, hi float64
	}{{338, 500, .634, .716}, {349, 500, .656, .737}, {365, 500, .689, .767}, {1, 8, .022, .471}, {0, 8, 0, .324}, {0, 0, 0, 1}} {
		lo, hi := wilson(c.k, c.n)
		if math.Abs(lo-c.lo) > .0006 || math.Abs(hi-c.hi) > .0006 {
			t.Errorf("wilson(%d, %d) = %.3f, %.3f, want %.3f, %.3f", c.k, c.n, lo, hi, c.lo, c.hi)
		}
	}
}

func TestTasksAddUp(t *testing.T) {
	t.Parallel()
	rows := example().Tasks()
	if len(rows) != 2 || rows[0].TaskID != "ta" || rows[0].Rollouts != 2 || rows[0].Resolved != 1 || *rows[0].Tokens != 400 || rows[0].TotalMS != 4000 {
		t.Errorf("%+v", rows)
	}
	if o := rows[1].Outcomes; len(o) != 2 || o[0].Outcome != record.Resolved || o[1].Outcome != record.TaskInvalid || rows[1].Known != 1 {
		t.Errorf("%+v", rows[1])
	}
}

// What a policy writes is data in the page, not markup.
func TestPageEscapesWhatSandboxesSay(t *testing.T) {
	t.Parallel()
	s := example()
	evil := rollout(`<img src=x onerror=alert(2)>`, 9, record.Partial)
	s.Add(evil)
	var b bytes.Buffer
	if err := writePage(&b, "Rollouts", s, []trajectory{view(evil)}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	for _, bad := range []string{"</script><script>alert", "<img src=x"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page holds %q as markup", bad)
		}
	}
	js, err := script("add", []trajectory{view(evil)})
	if err != nil || bytes.Contains(js, []byte("</script>")) {
		t.Errorf("script file %s, %v", js, err)
	}
}

func TestScriptsSplitByBytes(t *testing.T) {
	t.Parallel()
	files := map[string]int{}
	s := &scripts{put: func(name string, b []byte) error { files[name] = len(b); return nil }}
	big := view(rollout("t", 1, record.Resolved))
	big.Diff = strings.Repeat("x", batchBytes*2/3)
	for range 5 {
		if err := s.add(big); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 || files["index.js"] == 0 || files["trajectories-00002.js"] == 0 {
		t.Errorf("files %v", files)
	}
}
