// Package lossy reads bytes that need not be UTF-8 as text.
//
// What a command prints is shown to people, models and clients, who count its
// characters: all of them get the same ones, those that Python would give. The exact
// bytes are kept elsewhere; nothing here can give them back.
package lossy

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// Text is b as UTF-8 with U+FFFD for every maximal part that is not, as Python's
// decode(errors="replace") and the web do it. The standard library replaces byte by
// byte, or a whole run by one, so a client would count other lengths.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	out.Grow(len(b) + len(b)/8)
	for len(b) > 0 {
		n := validPrefix(b)
		out.Write(b[:n])
		if b = b[n:]; len(b) == 0 {
			break
		}
		out.WriteString(replacement)
		b = b[badPart(b):]
	}
	return out.String()
}

// validPrefix is the length of the longest valid start of b.
func validPrefix(b []byte) int {
	n := 0
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			return n
		}
		n += size
	}
	return n
}

// badPart is how many bytes of b, which starts with an invalid sequence, one U+FFFD
// stands for: the longest start of a well-formed sequence, or one byte (Unicode,
// table 3-7).
func badPart(b []byte) int {
	need, lo, hi := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		switch c {
		case 0xE0:
			lo = 0xA0
		case 0xED:
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		switch c {
		case 0xF0:
			lo = 0x90
		case 0xF4:
			hi = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}
