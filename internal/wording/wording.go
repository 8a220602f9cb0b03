// Package wording is how stages that compare texts see them: a normal form, and its words.
// What it says of a text is part of those stages' results, so a change here is another
// Version of each of them, and another embed.NgramMethod.
package wording

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Normal is a text as it is compared: one form of each character (Unicode NFKC), lower
// case, and one space for any white space.
func Normal(s string) string {
	return strings.Join(strings.Fields(strings.ToLower(norm.NFKC.String(s))), " ")
}

// Words splits a text into words: letters, digits and the marks on them. Scripts without
// spaces count each character as a word.
func Words(text string) []string {
	var words []string
	start := -1
	end := func(i int) {
		if start >= 0 {
			words = append(words, text[start:i])
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case spaceless(r) && !unicode.IsMark(r):
			end(i)
			start = i
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_':
			if start >= 0 && alone(text[start:i]) && !unicode.IsMark(r) {
				end(i)
			}
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
	return words
}

// alone reports whether a word begins in a script without spaces.
func alone(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return spaceless(r)
}

// spaceless reports whether a letter is of a script without spaces.
func spaceless(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar)
}

// Runs is a text's runs of letters, digits and marks, in any script.
func Runs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}
