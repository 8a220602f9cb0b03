package harness

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// outcome is what the model is told of a command.
type outcome struct {
	text      string // decoded
	unseen    int64  // bytes that were printed but not kept, between the text's halves
	code      int
	exception string // why there is no real exit code; "" when there is
}

const (
	longOutput = 10000 // characters from which an output is shortened
	keptHalf   = 5000  // characters kept at each end
)

// observation is the message about a command that ended. Every line break is the
// protocol's; the model sees an output that does not end in one run into the tag.
func observation(o outcome, warning string) string {
	var b strings.Builder
	if o.exception != "" {
		fmt.Fprintf(&b, "<exception>%s</exception>\n", o.exception)
	}
	fmt.Fprintf(&b, "<returncode>%d</returncode>\n", o.code)
	b.WriteString(output(o, warning))
	return b.String()
}

// output is the text of a command, whole or its two ends. Lengths are characters. Of
// what was printed beyond the sandbox's cap only the bytes are known: each counts as
// one character.
func output(o outcome, warning string) string {
	n := int64(utf8.RuneCountInString(o.text)) + o.unseen
	if n < longOutput {
		return "<output>\n" + o.text + "</output>"
	}
	return fmt.Sprintf("<warning>\n%s\n</warning><output_head>\n%s\n</output_head>\n"+
		"<elided_chars>\n%d characters elided\n</elided_chars>\n<output_tail>\n%s\n</output_tail>",
		warning, head(o.text, keptHalf), n-longOutput, tail(o.text, keptHalf))
}

// head is the first n characters of s, or all.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// tail is the last n characters of s, or all.
func tail(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
