package harness_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/harness"
	"orchard/internal/llm"
	"orchard/internal/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/patch.txt"

// commands is what the shell of the golden transcripts answers.
var commands = map[string]sandbox.Result{
	"ls":       out("calc.py\nREADME\n"),
	"printf x": out("no line end"),
	// 5,000 + 3 + 5,000 characters in three scripts.
	"cat big":   out(strings.Repeat("a", 4999) + "é" + "漢漢漢" + "é" + strings.Repeat("z", 4999)),
	"false":     {ExitCode: 1, Stdout: []byte("out\nerr\nout again\n")},
	"kill -9 $": {ExitCode: -9, Stdout: []byte("one\r\ntwo\rthree\xe2\x82")},
	"sleep 100": {ExitCode: 124, TimedOut: true, Stdout: []byte("started\r\n"), Duration: time.Minute},
	"sleep big": {ExitCode: 124, TimedOut: true, Stdout: []byte(strings.Repeat("a", 6000) + strings.Repeat("z", 6001)), Duration: time.Minute},
	// A sentinel counts only when the command succeeds.
	submit + "; false": {ExitCode: 1, Stdout: []byte("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nlate\n")},
	submit:             out("\n COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT \ndiff --git a/calc.py b/calc.py\n+fixed\n"),
	"old sentinel":     out("MINI_SWE_AGENT_FINAL_OUTPUT\nold\n"),
}

// The golden files were checked by hand against the description of the protocol; a
// change in one is a change of the protocol, or of our words, and needs the same care.
func TestGoldenTranscripts(t *testing.T) {
	t.Parallel()
	reasoned := calls("Looking.", "ls", "cat big", "printf x")
	reasoned.Message.Reasoning = "First see what is there."
	cutOff := text("THOUGHT: a very long")
	cutOff.FinishReason = "length"
	noID := calls("", "ls")
	noID.Message.ToolCalls[0].ID = ""
	unknown := calls("", "ls", "ls")
	unknown.Message.ToolCalls[1].Name = "python"
	broken := calls("", "ls")
	broken.Message.ToolCalls[0].Arguments = `{"command": "ls`
	block := func(word, command string) llm.Response {
		return text("THOUGHT: go on\n\n```" + word + "\n" + command + "\n```")
	}
	v1 := func(command string) llm.Response { return block("bash", command) }
	v1Reasoned := v1("ls")
	v1Reasoned.Message.Reasoning = "First see what is there."
	tests := []struct {
		name, harness string
		answers       []llm.Response
	}{
		{"v2-submitted", harness.MiniSweV2, []llm.Response{
			reasoned, text("I forgot the call."), unknown, calls("", "false"), cutOff, noID, calls("", "kill -9 $"),
			calls("", "sleep 100"), calls("", "old sentinel"), calls("", submit+"; false"), calls("Done.", "ls", submit, "ls"),
		}},
		{"v2-repeated-format-error", harness.MiniSweV2, []llm.Response{
			broken, broken, calls("", "ls"), broken, unknown, text("Sorry."),
		}},
		{"v2-text-submitted", harness.MiniSweV2Text, []llm.Response{
			v1("ls"), block("mswea_bash_command", "ls"), block("mswea_bash_command", "sleep 100"), block("mswea_bash_command", submit),
		}},
		{"v1-submitted", harness.MiniSweV1, []llm.Response{
			v1Reasoned, text("I forgot the block."), text("```bash\nls\n```\n```bash\nls\n```"), text("no"), text("no"), v1("cat big"), v1("printf x"),
			v1("false"), v1("kill -9 $"), v1("sleep 100"), v1("sleep big"), v1(submit + "; false"), v1("old sentinel"),
		}},
		{"v1-step-limit", harness.MiniSweV1, []llm.Response{v1("ls")}},
		{"v2-step-limit", harness.MiniSweV2, []llm.Response{calls("", "ls")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr, _, err := play(t, tt.harness, tt.answers, func(e *harness.Episode) {
				e.Shell = &shell{results: commands}
				if strings.HasSuffix(tt.name, "step-limit") {
					e.Limits.Steps = 2
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", tt.name+".txt")
			got := transcript(tr)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
		})
	}
}
