package harness

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The original is written in Python, and what the model sees depends on how Python
// treats text: these are its rules where Go's differ.

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
