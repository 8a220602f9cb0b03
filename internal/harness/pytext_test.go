package harness

import (
	"testing"
	"unicode/utf8"
)

// The expected texts are what CPython 3.11 gives for bytes.decode("utf-8", "replace").
func TestDecodeAsPython(t *testing.T) {
	t.Parallel()
	const r = "\ufffd"
	tests := []struct{ name, in, want string }{
		{"plain", "aé漢😀", "aé漢😀"},
		{"character cut off at the end is one", "a\xe2\x82", "a" + r},
		{"character cut off in the middle is one", "\xe2\x82b", r + "b"},
		{"three bytes of four are one", "\xf0\x90\x80\xff", r + r},
		{"overlong is one each", "\xc0\x80", r + r},
		{"overlong of three", "\xe0\x80\x80", r + r + r},
		{"surrogate", "\xed\xa0\x80", r + r + r},
		{"beyond Unicode", "\xf4\x90\x80\x80", r + r + r + r},
		{"continuation alone", "\x80x\xbf", r + "x" + r},
		{"two starts", "\xc3\xc3\xa9", r + "é"},
	}
	for _, tt := range tests {
		if got := decode([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: %q gives %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}

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

func FuzzDecode(f *testing.F) {
	f.Add([]byte("a\xe2\x82b\xf0\x90\x80\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := decode(b)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not valid", got)
		}
		if utf8.Valid(b) && got != string(b) {
			t.Fatalf("valid %q became %q", b, got)
		}
		// One mark for a piece of at most three bytes: never more characters than
		// Go's count, never fewer than a third of it.
		if n, most := utf8.RuneCountInString(got), utf8.RuneCount(b); n > most || 3*n < most {
			t.Fatalf("%q has %d characters, Go counts %d", b, n, most)
		}
	})
}
