package cosine

import (
	"errors"
	"math"
)

// What makes a vector unfit for a cosine.
var (
	ErrZero      = errors.New("all its numbers are zero")
	ErrNotFinite = errors.New("it holds NaN or an infinity")
)

// Unit scales v to length one in float64, whatever its length was, and rounds to float32.
// v is left as it is.
func Unit(v []float32) ([]float32, error) {
	var sum float64
	for _, f := range v {
		sum += float64(f) * float64(f) // exact products; no float32 overflows or vanishes here
	}
	switch {
	case math.IsNaN(sum) || math.IsInf(sum, 0):
		return nil, ErrNotFinite
	case sum == 0:
		return nil, ErrZero
	}
	norm := math.Sqrt(sum)
	out := make([]float32, len(v))
	for i, f := range v {
		out[i] = float32(float64(f) / norm)
	}
	return out, nil
}

// Score is the cosine of two unit vectors by definition. A product of two float32 is exact
// in float64, so a processor that fuses multiplication and addition gives the same.
func Score(x, y []float32) float64 { return fastest.score(x, y) }
