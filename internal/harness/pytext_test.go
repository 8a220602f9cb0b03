package harness

import (
	"testing"
)

func TestSubmission(t *testing.T) {
	t.Parallel()
	v1, v2 := protocols[2], protocols[0]
	if v1.name != MiniSweV1 || v2.name != MiniSweV2 {
		t.Fatal("order of protocols changed")
	}
	const s = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
	tests := []struct {
		name, output, rest string
		v1, v2             bool
	}{
		{"alone", s, "", true, true},
		{"with a patch", s + "\ndiff --git\n+x\n", "diff --git\n+x\n", true, true},
		{"blank lines before, spaces around", "\n \u00a0\x1f\n " + s + " \t\nrest", "rest", true, true},
		{"blank lines after belong to the submission", s + "\n\nrest", "\nrest", true, true},
		{"old sentinel", "MINI_SWE_AGENT_FINAL_OUTPUT\nrest", "rest", true, false},
		{"not the first line", "hello\n" + s, "", false, false},
		{"not the whole line", s + "!\nx", "", false, false},
		{"lines end at a form feed", s + "\fx\n", "x\n", true, true},
		{"at NEL", s + "\u0085x", "x", true, true},
		{"at a line separator", s + "\u2028x", "x", true, true},
		{"at a file separator", s + "\x1cx", "x", true, true},
		{"CR LF is one end", s + "\r\n\r\nx", "\r\nx", true, true},
		{"a unit separator ends no line but is white space", s + "\x1f\nx", "x", true, true},
		{"nothing", "", "", false, false},
	}
	for _, tt := range tests {
		for _, p := range []struct {
			protocol
			want bool
		}{{v1, tt.v1}, {v2, tt.v2}} {
			rest, ok := p.submission(tt.output)
			if ok != p.want || (ok && rest != tt.rest) {
				t.Errorf("%s, %s: got %q, %v, want %q, %v", p.name, tt.name, rest, ok, tt.rest, p.want)
			}
		}
	}
}
