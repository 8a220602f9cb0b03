package lossy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The expected texts are what Python's bytes.decode(errors="replace") gives.
func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"ascii", "abc\n", "abc\n"},
		{"NUL", "a\x00b", "a\x00b"},
		{"two lone bytes", "\xff\xfe", "\uFFFD\uFFFD"},
		{"continuation alone", "\x80a", "\uFFFDa"},
		{"two of three", "\xe2\x82z", "\uFFFDz"},
		{"three of four", "\xf0\x9f\x98", "\uFFFD"},
		{"three of four, then a start", "\xf0\x9f\x98\xe2\x82\xac", "\uFFFD€"},
		{"overlong slash", "\xc0\xaf", "\uFFFD\uFFFD"},
		{"overlong three", "\xe0\x80\xaf", "\uFFFD\uFFFD\uFFFD"},
		{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"beyond Unicode", "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"five bytes", "\xf8\x88\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"real U+FFFD", "\uFFFDx\xff", "\uFFFDx\uFFFD"},
		{"plain", "aé漢😀", "aé漢😀"},
		{"character cut off at the end", "a\xe2\x82", "a\uFFFD"},
		{"three bytes of four, then none", "\xf0\x90\x80\xff", "\uFFFD\uFFFD"},
		{"two starts", "\xc3\xc3\xa9", "\uFFFDé"},
		{"table 3-8 of Unicode", "\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd"},
	} {
		if got := Text([]byte(c.in)); got != c.want {
			t.Errorf("%s: Text(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestTextProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Byte()).Draw(t, "in")
		got := Text(in)
		if !utf8.ValidString(got) {
			t.Fatalf("Text(%q) = %q is not UTF-8", in, got)
		}
		if utf8.Valid(in) && got != string(in) {
			t.Fatalf("Text(%q) = %q changed valid text", in, got)
		}
		if strings.ToValidUTF8(got, "") != got || len(got) == 0 != (len(in) == 0) {
			t.Fatalf("Text(%q) = %q", in, got)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add([]byte("a\xe2\x82b\xf0\x90\x80\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Text(b)
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
