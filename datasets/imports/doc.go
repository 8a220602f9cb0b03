// Package imports reads task sets in the wild (SWE-bench-shaped JSONL, JSON and
// Parquet) into record.Task.
//
// The same task written in any accepted form gives the same row: lists as JSON lists,
// JSON strings or numpy's way of printing them; times as ISO text or epoch numbers;
// install_config as an object or a JSON string. What cannot be understood is a Problem
// that names file, row, task and column, and never a guess. Columns that have no
// meaning here survive in Task.Raw.
//
// The package also packs a task's repository: history up to the base commit, no other
// ref, as a git bundle whose bytes depend only on that history and on git's version.
// It runs git with a clean environment and never a command of the repository's own.
package imports
