package runner

import (
	"orchard/datasets/record"
)

// How a stage ended, as Result.Status.
const (
	StatusDone    = "done"         // a version was committed
	StatusAlready = "already_done" // the version was there
	StatusPlanned = "planned"      // --mode plan
	StatusShard   = "shard_done"   // --shard: units are written, nothing is committed
	StatusChecked = "checked"      // --mode check
	StatusDryRun  = "dry_run"
	StatusStopped = "stopped" // SIGTERM or deadline: finished work is kept
	StatusFailed  = "failed"
)

// Result is the numbers of a stage: the content of its result file and of its
// summary line.
type Result struct {
	Stage    string `json:"stage"`
	Version  int    `json:"version"`
	RunID    string `json:"run_id"`
	Mode     string `json:"mode"`
	Status   string `json:"status"`
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`

	Key    string `json:"key"`
	URI    string `json:"uri,omitempty"` // of the version, with its digest; "" when none was committed
	Digest string `json:"digest,omitempty"`
	// Left is the digest of what this run made, when another run of the same key had
	// committed other content before: the first stands and is the result.
	Left string `json:"left,omitempty"`

	Inputs   []string         `json:"inputs"`  // URIs, with the digest
	RowsIn   int64            `json:"rows_in"` // for Rollouts the number of units
	RowsOut  int64            `json:"rows_out"`
	Dropped  map[string]int64 `json:"dropped"`            // rows by reason
	Outcomes map[string]int64 `json:"outcomes,omitempty"` // rows by Source.Outcome
	Units    *UnitCounts      `json:"units,omitempty"`    // of Rollouts
	Shards   []string         `json:"shards,omitempty"`   // of --mode plan: "i/n"
	Files    []File           `json:"files,omitempty"`    // beside the version

	Usage record.Usage `json:"usage"`
	DurMS int64        `json:"dur_ms"`
}

// UnitCounts is what became of the units this process was given.
type UnitCounts struct {
	Total   int64 `json:"total"`
	Done    int64 `json:"done"`    // finished now
	Reused  int64 `json:"reused"`  // found finished
	Retried int64 `json:"retried"` // attempts beyond a unit's first
	Infra   int64 `json:"infra"`   // not finished: we could not find out
	Left    int64 `json:"left"`    // not finished: not tried, or abandoned by a stop
}

// File is something a stage wrote beside its rows.
type File struct {
	Name   string `json:"name"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}
