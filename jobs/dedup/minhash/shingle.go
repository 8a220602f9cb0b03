package minhash

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"orchard/internal/wording"
)

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
	} else if words := wording.Words(text); len(words) > 0 {
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
