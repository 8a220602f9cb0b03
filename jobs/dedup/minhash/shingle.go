package minhash

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"
)

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
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar) && !unicode.IsMark(r):
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
	for _, r := range word {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar)
	}
	return false
}

// Shingles is the set of a text's shingles as sorted hashes: n words in a row, or n
// characters when chars is set. A shorter text is one shingle; so is a text without words.
// Only the empty text has none.
func Shingles(text string, n int, chars bool) []uint64 {
	if text == "" {
		return nil
	}
	var set []uint64
	if chars {
		set = runes(text, n)
	} else if words := Words(text); len(words) > 0 {
		for i := 0; i == 0 || i+n <= len(words); i++ {
			set = append(set, xxhash.Sum64String(strings.Join(words[i:min(i+n, len(words))], " ")))
		}
	} else {
		set = append(set, xxhash.Sum64String(text))
	}
	slices.Sort(set)
	return slices.Compact(set)
}

func runes(text string, n int) (set []uint64) {
	var starts []int
	for i := range text {
		starts = append(starts, i)
	}
	starts = append(starts, len(text))
	count := len(starts) - 1
	for i := 0; i == 0 || i+n <= count; i++ {
		set = append(set, xxhash.Sum64String(text[starts[i]:starts[min(i+n, count)]]))
	}
	return set
}

// Jaccard is the share of all elements of two sorted sets that both have; 0 for two empty ones.
func Jaccard(a, b []uint64) float64 {
	both := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			both, i, j = both+1, i+1, j+1
		}
	}
	if both == 0 {
		return 0
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
