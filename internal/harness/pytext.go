package harness

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The original is written in Python, and what the model sees depends on how Python
// treats text: these are its rules where Go's differ.

// decode is bytes as UTF-8 with U+FFFD for each maximal piece of a character that is
// not whole, as Python's errors="replace" has it. Go's own conversion puts one for
// each byte, which changes lengths.
func decode(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = piece(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// piece is the length of the broken character that b begins with.
func piece(b []byte) int {
	low, high, more := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		more = 1
	case c >= 0xE0 && c <= 0xEF:
		more = 2
	case c >= 0xF0 && c <= 0xF4:
		more = 3
	}
	switch b[0] { // overlong forms, surrogates and what is beyond Unicode
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n <= more && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}

// newlines turns CR LF and CR into LF, as reading a pipe in text mode does.
func newlines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// isSpace is str.isspace: unicode.IsSpace and the four separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1C && r <= 0x1F) }

func strip(s string) string { return strings.TrimFunc(s, isSpace) }

// cutLine is the first of str.splitlines and what follows its line end.
func cutLine(s string) (line, rest string) {
	i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
	if i < 0 {
		return s, ""
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	if strings.HasPrefix(s[i:], "\r\n") {
		n = 2
	}
	return s[:i], s[i+n:]
}

// submission is what an output hands in: everything after a first line that is one of
// the sentinels, blank lines before it ignored.
func (p protocol) submission(output string) (rest string, ok bool) {
	line, rest := cutLine(strings.TrimLeftFunc(output, isSpace))
	line = strip(line)
	for _, s := range p.sentinels {
		if line == s {
			return rest, true
		}
	}
	return "", false
}
