// Package contamination compares a task with the tasks of evaluation sets: is it one of
// them, or so near that training on it would teach the answers?
//
// An Index holds the evaluation sets in memory; tasks are asked about one at a time, in
// any order, and the answer depends on nothing but the two. What a check needs and a row
// does not have (a date, a repository) is "not known" and counted, never "clean".
//
// An Index compares text and names; Meanings compares statements by their embeddings, many
// tasks at a time, which it asks somebody else for. Merge puts what both found together.
package contamination
