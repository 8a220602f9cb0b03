// Package examples holds the example tasks, embedded, so that a program has something
// to work on before its user brings tasks of their own.
//
// It reads nothing and decides nothing: what the files mean is written in
// tasks/README.md. Everything in it is fixed; the repositories have fixed dates, so
// that every commit has the same id wherever they are imported.
package examples

import "embed"

// FS is the folder tasks: tasks.jsonl, with one SWE-bench-shaped row a task, and beside
// it what the rows refer to.
//
//go:embed tasks
var FS embed.FS

// Tasks is the path in FS of the rows; the paths in them are relative to its folder.
const Tasks = "tasks/tasks.jsonl"
