// Package arrowio turns rows (datasets/record) into Arrow IPC files, Parquet and JSON
// lines, and back. It is the only package that imports Arrow.
//
// The schema of a row type is derived from its Go struct, once: the json tag is the
// column, the Go type decides the Arrow type (string is large_string, []byte
// large_binary, time.Time timestamp[us, UTC], a pointer is nullable, a slice is a list
// and never null), and the tags volatile and blob become field metadata. A file always
// carries the whole schema, with no rows as well. There are no dictionaries: Arrow 17
// cannot write a second batch with other values.
//
// The same rows give the same bytes. A File is decoded batch by batch, and of a batch the
// columns that a Query wants. What is read is checked before: Arrow 17 answers a flipped
// byte with garbage or a panic, so the caller compares a file's sha256 first, and a panic
// of the library becomes an error all the same.
package arrowio
