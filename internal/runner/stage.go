package runner

import (
	"context"
	"io"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
)

// Stage says what is run. Name, Version and Settings are part of the result's key.
type Stage struct {
	Name string
	// Version goes up whenever the stage's output for the same input changes.
	Version int
	// Settings is the stage's own configuration, as JSON. It holds what changes the
	// result and nothing else: no worker counts, no addresses, no secrets.
	Settings any
	// Model marks a stage that asks a model: its results belong to one run id.
	Model bool
	// Inputs replaces the datasets of --in for a stage that reads something else, such
	// as files. When it is not nil the runner opens no --in.
	Inputs []datasets.Input
}

// Deps is what a stage is given besides its configuration. The zero value is the real world.
type Deps struct {
	Stdout, Stderr io.Writer           // nil: the process's own
	Now            func() time.Time    // nil: time.Now
	Getenv         func(string) string // nil: os.Getenv
	Open           datasets.Opener     // nil: datasets.Stores
	Grace          time.Duration       // for running units after a stop; 0: 10 s
	Backoff        time.Duration       // before the first retry of a unit, growing from there; 0: 1 s
	Patience       time.Duration       // with what is away: of ModeCheck, and up to 10 s of the first work; 0: a minute
}

// Unit is one piece of work of a Rollouts stage.
type Unit struct {
	ID   string // unique in the stage; letters, digits, '.', '_' and '-': it names an object
	Task string // for log lines
	Work any    // whatever Do needs
}

// Source is the work of a Rollouts stage. Units and Do must be set.
type Source[Out record.Row] struct {
	// Units is all units in the order they are worked on. Called once; the same inputs
	// and settings give the same list.
	Units func(ctx context.Context, in []*datasets.Version) ([]Unit, error)
	// Ready is called once before the first unit that has to be done, so that a rerun
	// with nothing to do contacts nobody. Its error ends the stage.
	Ready func(ctx context.Context) error
	// Do does one unit; several run at once. Its logger is in ctx. The id of its row is
	// the unit's.
	//
	// A nil error finishes the unit with its row. Any other error means we could not
	// find out: the unit is retried and otherwise stays unfinished; the row, as far as it
	// came, is kept as evidence when it has the unit's id. Exceptions: an error
	// of Drop, and one marked exit.Input, finish the unit without a row (an Input error
	// under the reason task_invalid); one marked exit.Config or exit.Gone ends the stage.
	Do func(ctx context.Context, u Unit, t Tools) (Out, error)
	// Outcome names the kind of a row for progress and summary, such as the verdict.
	Outcome func(Out) string
	// Usage is what a row cost.
	Usage func(Out) record.Usage

	// Limit, when it is not 0, is how many rows are needed for which Counts is true.
	// Units are then taken in their order, and no more of them than it takes: once those
	// at the front have so many, what still runs is cancelled, and what was not needed
	// is dropped as not_needed, whether it was done or not. Which rows there are thus
	// depends on the order of the units and never on how long one took.
	Limit  int
	Counts func(Out) bool

	// Files, when it is not nil, makes files beside a version that was just committed,
	// from nothing but that version, so that they can be made later when this process does
	// not come to it. A put file appears in Result.Files.
	Files func(ctx context.Context, v *datasets.Version, put func(name string, b []byte) error) error
}

// Tools is what Do may use of the runner.
type Tools struct {
	// Keep turns bytes of any length and encoding into a row's Text, storing a blob
	// beside the result where the row cannot hold them.
	Keep func(ctx context.Context, b []byte) (record.Text, error)
	// Blob is the whole content of a blob of the inputs or the output.
	Blob func(ctx context.Context, sha256 string) ([]byte, error)
	// PutBlob stores a blob beside the result and returns its sha256; a field of the row
	// must name it. Storing it again is no error.
	PutBlob func(ctx context.Context, b []byte) (sha256 string, err error)
	// Attempt is 1 for the first try of the unit in this process.
	Attempt int
	// Last is set when there is no further try of the unit in this process.
	Last bool
	// Seed is the run's seed and the unit's id, mixed.
	Seed int64

	job   *job
	store objstore.Store
}
