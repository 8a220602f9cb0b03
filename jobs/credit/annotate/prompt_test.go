package annotate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/jobs/credit/curve"
)

func failed(n, observation int) record.Rollout {
	zero := int64(0)
	r := record.Rollout{Trajectory: record.Trajectory{ExitStatus: record.ExitSubmitted, Messages: []record.Message{
		{Role: "system", Content: "SYSTEM", Step: -1, Kept: true}, {Role: "user", Content: "Mend it.", Step: -1, Kept: true}}},
		Verdict: record.Verdict{Outcome: record.Unresolved, Reason: "TestA failed", Tests: []record.TestResult{
			{Name: "TestA", Kind: "fail_to_pass", Status: record.TestFailed}, {Name: "TestB", Kind: "pass_to_pass", Status: record.TestPassed}}}}
	for i := range n {
		r.Trajectory.Messages = append(r.Trajectory.Messages, record.Message{Role: "assistant", Reasoning: fmt.Sprint("thought ", i), Content: fmt.Sprint("said ", i), Step: int64(i), Kept: true})
		r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{Actions: []record.Action{
			{Command: fmt.Sprint("run ", i), ExitCode: &zero, Observation: record.Text{Value: fmt.Sprintf("begin %d %s end %d", i, strings.Repeat("ü", observation), i)}}}})
	}
	return r
}

func TestTheQuestionHasAllOfIt(t *testing.T) {
	t.Parallel()
	r := failed(4, 10)
	r.Trajectory.Steps[1] = record.Step{FormatError: "no call"}
	r.Trajectory.Steps[2].Actions[0].ExitCode = nil
	r.Trajectory.Steps[3].Actions[0].TimedOut = true
	p, err := Ask(r, curve.Before, DefaultLimits())
	if err != nil || p.CutParts != 0 || p.Chars != utf8.RuneCountInString(p.System+p.User) {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, says := range []string{"Mend it.", "--- step 0 ---\nsaid: thought 0\nsaid 0\ncommand: run 0\nexit code: 0\noutput: begin 0", "could not be followed: no call",
		"result: not run", "result: timed out", "Tests that did not pass (1):\n- TestA (fail to pass): failed", "- TestB (pass to pass)", "Verdict: unresolved (TestA failed)",
		"a number from 0 to 3", "before that step was taken"} {
		if !strings.Contains(p.User, says) {
			t.Errorf("no %q in\n%s", says, p.User)
		}
	}
	if strings.Contains(p.User, "SYSTEM") {
		t.Error("the policy's system prompt is in it")
	}
	after, err := Ask(r, curve.After, DefaultLimits())
	if err != nil || !strings.Contains(after.User, "right after that step was taken") || TemplateID(curve.After) == TemplateID(curve.Before) {
		t.Errorf("%v", err)
	}
}

// An imported trajectory has no actions: its calls and answers are messages.
func TestTheQuestionAboutMessagesAlone(t *testing.T) {
	t.Parallel()
	r := failed(1, 0)
	r.Trajectory.Steps[0].Actions = nil
	r.Trajectory.Messages[2].ToolCalls = []record.ToolCall{{Name: "edit", Arguments: `{"x":1}`}}
	r.Trajectory.Messages = append(r.Trajectory.Messages, record.Message{Role: "tool", Content: "edited", Step: 0, Kept: true})
	p, err := Ask(r, curve.Before, DefaultLimits())
	if err != nil || !strings.Contains(p.User, "command: edit {\"x\":1}\noutput: edited") {
		t.Errorf("%v\n%s", err, p.User)
	}
}

// The words of the prompt are part of its id: a change of them makes another.
func TestTemplateIDs(t *testing.T) {
	t.Parallel()
	if got := TemplateID(curve.Before) + " " + TemplateID(curve.After); got != "credit-before@c8d09811fac9 credit-after@c8d09811fac9" {
		t.Errorf("%s: answers to other words are another version of the stage", got)
	}
}

func TestLongTrajectoriesAreCut(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.Total = 60_000
	p, err := Ask(failed(20, 10_000), curve.Before, l)
	if err != nil || p.Chars > l.Total || p.CutParts != 20 || p.CutChars < 20*8800 {
		t.Fatalf("%d characters, %d parts, %d cut, %v", p.Chars, p.CutParts, p.CutChars, err)
	}
	if strings.Count(p.User, "characters left out …]") != 20 || !strings.Contains(p.User, "begin 7 ") || !strings.Contains(p.User, " end 7\n") || !strings.Contains(p.User, "thought 7\nsaid 7") {
		t.Error("both ends of a text stay, and it says what is left out")
	}
	l.Total = 12_000 // the limits alone do not do
	if p, err = Ask(failed(20, 10_000), curve.Before, l); err != nil || p.Chars > l.Total {
		t.Errorf("%d characters, %v", p.Chars, err)
	}
	if _, err = Ask(failed(500, 100), curve.Before, l); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v", err)
	}
}

func TestShortenKeepsBothEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "s"), rapid.IntRange(1, 50).Draw(t, "most")
		got, n := shorten(s, most), len([]rune(s))
		if n <= most {
			if got != s {
				t.Fatalf("%q is %q", s, got)
			}
			return
		}
		note := fmt.Sprintf("[… %d characters left out …]", n-most)
		head, tail, ok := strings.Cut(got, note)
		if !ok || !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || length(head)+length(tail) != most {
			t.Fatalf("%q", got)
		}
	})
}
