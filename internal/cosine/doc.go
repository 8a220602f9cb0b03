// Package cosine finds, among vectors that are kept, those whose cosine with another vector
// is at least tau: the earliest one (Finder), or all of them (Near). It knows vectors and
// nothing of what they stand for.
//
// The cosine of two rows is defined as the dot product, summed in float64 in a fixed order, of
// their vectors as Unit makes them: of length one in float64, then rounded to float32. All
// that makes the search fast only rules pairs out, with a bound that holds for any
// rounding, and every pair that is not ruled out is decided by that definition. So the
// result is the same for any number of goroutines, any size of block, and with or without SIMD.
//
// How pairs are ruled out, cheapest first:
//
//   - by a prefix: <x,y> <= <Px,Py> + |x-Px||y-Py| for any projection P (Cauchy and
//     Schwarz). P is the leading rows of a random-sign Walsh-Hadamard rotation, which spread
//     the energy of any vector evenly; see view.go. For embeddings of Matryoshka training,
//     whose leading numbers hold the most already, P is those;
//   - by a longer prefix, for what is left;
//   - by the whole product in float32, unless it is within rounding of tau.
//
// A Finder compares a vector whose twin is found no further. Beyond a million rows SimHash may
// find the pairs instead, which misses some; what it finds is decided the same way.
package cosine
