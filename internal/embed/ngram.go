package embed

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"orchard/internal/wording"
)

// NgramMethod names the hashed n-grams and all that decides their numbers.
const NgramMethod = "hashed-ngram-v1"

// NgramDim is how many numbers such a vector has.
const NgramDim = 1024

// Ngram is a vector of a text's words and pairs of words, and of all runs of 3 to 5
// characters, each hashed to a place and a sign and weighted with 1+ln(count). It knows
// nothing of meaning: it is close for texts with mostly the same wording. The vector of
// an empty text is zero.
func Ngram(text string) []float32 {
	counts, words := map[uint64]int{}, wording.Words(text)
	for i, w := range words {
		counts[xxhash.Sum64String("w "+w)]++
		if i > 0 {
			counts[xxhash.Sum64String("p "+words[i-1]+" "+w)]++
		}
	}
	var starts []int
	for i := range text {
		starts = append(starts, i)
	}
	starts = append(starts, len(text))
	for n := 3; n <= 5; n++ {
		for i := 0; i+n < len(starts); i++ {
			counts[xxhash.Sum64String("c "+text[starts[i]:starts[i+n]])]++
		}
	}
	if len(counts) == 0 && text != "" { // one or two characters, none of them of a word
		counts[xxhash.Sum64String("t "+text)]++
	}
	// Added as whole numbers of millionths: the order in which a map yields does not show.
	sums := make([]int64, NgramDim)
	for h, n := range counts {
		weight := int64(math.Round(1e6 * (1 + math.Log(float64(n)))))
		if h>>63 == 1 {
			weight = -weight
		}
		sums[h%NgramDim] += weight
	}
	v := make([]float32, NgramDim)
	for i, s := range sums {
		v[i] = float32(s) / 1e6
	}
	return v
}
