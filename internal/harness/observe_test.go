package harness

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"orchard/internal/lossy"
)

func TestObservationBreaksLinesAsTheOriginal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 4999) + "H" + strings.Repeat("m", 7) + "T" + strings.Repeat("漢", 4999) // 10,007 characters
	tests := []struct {
		name string
		o    outcome
		want string
	}{
		{"a line", outcome{text: "hello\n"}, "<returncode>0</returncode>\n<output>\nhello\n</output>"},
		{"no line end", outcome{text: "hello", code: 2}, "<returncode>2</returncode>\n<output>\nhello</output>"},
		{"nothing", outcome{}, "<returncode>0</returncode>\n<output>\n</output>"},
		{"white space is kept", outcome{text: "\n  x \n\n"}, "<returncode>0</returncode>\n<output>\n\n  x \n\n</output>"},
		{"no exit code", outcome{text: "part", code: -1, exception: "late"}, "<exception>late</exception>\n<returncode>-1</returncode>\n<output>\npart</output>"},
		{"one below the limit, in characters", outcome{text: strings.Repeat("漢", 9999)}, "<returncode>0</returncode>\n<output>\n" + strings.Repeat("漢", 9999) + "</output>"},
		{"at the limit", outcome{text: strings.Repeat("漢", 10000)}, "<returncode>0</returncode>\n<warning>\nW\n</warning><output_head>\n" + strings.Repeat("漢", 5000) +
			"\n</output_head>\n<elided_chars>\n0 characters elided\n</elided_chars>\n<output_tail>\n" + strings.Repeat("漢", 5000) + "\n</output_tail>"},
		{"over the limit", outcome{text: long}, "<returncode>0</returncode>\n<warning>\nW\n</warning><output_head>\n" + strings.Repeat("é", 4999) + "H" +
			"\n</output_head>\n<elided_chars>\n7 characters elided\n</elided_chars>\n<output_tail>\nT" + strings.Repeat("漢", 4999) + "\n</output_tail>"},
		{"beyond the sandbox's cap", outcome{text: long, unseen: 1 << 20}, "<returncode>0</returncode>\n<warning>\nW\n</warning><output_head>\n" + strings.Repeat("é", 4999) + "H" +
			"\n</output_head>\n<elided_chars>\n1048583 characters elided\n</elided_chars>\n<output_tail>\nT" + strings.Repeat("漢", 4999) + "\n</output_tail>"},
	}
	for _, tt := range tests {
		if got := observation(tt.o, "W"); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func FuzzObservation(f *testing.F) {
	f.Add([]byte("hello\n"), 0, false)
	f.Add([]byte(strings.Repeat("ab\xe2\x82漢", 4000)), -1, true)
	f.Fuzz(func(t *testing.T, raw []byte, code int, exception bool) {
		o := outcome{text: lossy.Text(raw), code: code}
		if exception {
			o.exception = "E"
		}
		got := observation(o, "W")
		if !utf8.ValidString(got) {
			t.Fatal("not valid UTF-8")
		}
		want := fmt.Sprintf("<returncode>%d</returncode>\n<", code)
		if exception {
			want = "<exception>E</exception>\n" + want
		}
		if !strings.HasPrefix(got, want) {
			t.Fatalf("begins %q, want %q", head(got, 80), want)
		}
		runes := []rune(o.text)
		if len(runes) < 10000 {
			if !strings.HasSuffix(got, "<output>\n"+o.text+"</output>") {
				t.Fatalf("short output not whole: %q", got)
			}
			return
		}
		for _, part := range []string{
			"<output_head>\n" + string(runes[:5000]) + "\n</output_head>",
			fmt.Sprintf("<elided_chars>\n%d characters elided\n</elided_chars>", len(runes)-10000),
			"<output_tail>\n" + string(runes[len(runes)-5000:]) + "\n</output_tail>",
		} {
			if !strings.Contains(got, part) {
				t.Fatalf("long output misses %q", head(part, 80))
			}
		}
	})
}
