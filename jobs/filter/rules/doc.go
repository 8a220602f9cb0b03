// Package rules reads a rule file and says of a task which of its rules drops it.
//
// A rule is an expression of expr-lang over the columns of a task (datasets/columns), the
// source's own row (raw), named sets, and counts over the rows that came so far. It has
// three answers: true, false, and unknown, when it asks for something that the row does
// not have; && and || know the third (unknown || true is true), and a rule says with
// `absent` what becomes of a row of which it is the answer. Without that it is an error,
// never a silent false.
//
// Same file, same sets, same row: same answer. There is no clock and no randomness in an
// expression. The package reads no store; a Program is for one goroutine.
package rules
