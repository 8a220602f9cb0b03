// Package minhash finds near-duplicate texts: those whose sets of shingles (n words in a
// row, or n characters) have a Jaccard similarity of at least a threshold.
//
// Pairs are proposed by MinHash with banding (Broder 1997; Leskovec, Rajaraman, Ullman,
// Mining of Massive Datasets, 3.4): two texts of similarity s share one of b bands of r
// hashes with probability 1-(1-s^r)^b. A proposed pair is a duplicate when its true
// similarity reaches the threshold, so nothing is removed by chance; some pairs near the
// threshold are not proposed. Texts are compared with kept ones only.
package minhash
