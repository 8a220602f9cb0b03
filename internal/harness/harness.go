// Package harness plays a task: it asks a model, runs what the model wants run, shows
// it the outcome, and goes on until the model hands in or a limit ends it.
//
// "Harness" is the model loop; "agent" is the program inside the sandbox. A harness
// knows nothing of datasets, shards or HTTP. It follows its protocol to the letter;
// the words of the prompts are ours, named by a template id that every trajectory
// records. An error of Run means that we could not find out what the policy does
// (the model server or the sandbox is gone); everything the policy itself did wrong
// is an exit status.
//
// The harnesses are mini-swe-agent's: every command in a new shell in the same folder,
// the whole history in every request. New lists them.
//
// How a trajectory ends: with a message of the protocol's end role that is not Kept.
// Protocols with tool calls show no observation of the message that hands in, not even
// of the calls before the one that did; so the last assistant message has tool calls
// without tool messages. Its step has every call as an action, those that came after
// the submission with a nil exit code. An exporter to a format that wants an answer to
// each call drops that message's calls or answers them from the actions.
package harness

import (
	"context"
	"time"

	"orchard/datasets/record"
	"orchard/internal/llm"
	"orchard/internal/sandbox"
)

// Harness is an agent loop. Safe for concurrent use.
type Harness interface {
	Name() string
	// Run plays one task. The trajectory is filled in as far as it came even when the
	// error is not nil; Diff and DiffSHA256 are the caller's to set.
	Run(ctx context.Context, e Episode) (record.Trajectory, error)
}

// Episode is one task to play and what to play it with.
type Episode struct {
	Statement string
	Workdir   string
	Model     llm.Model
	Sampling  Sampling
	Limits    Limits
	Shell     Shell
	// TreeSHA256 is the sha256 of the working tree's diff, taken without the model
	// noticing; "" when it could not be taken. It may be nil.
	TreeSHA256 func(ctx context.Context) string
	// Keep turns bytes of any length and encoding into a row's Text, storing a blob
	// where the row cannot hold them.
	Keep func(ctx context.Context, b []byte) (record.Text, error)
	// Clock is for wall-clock limits and durations; nil is time.Now.
	Clock func() time.Time
}

// Shell runs the model's commands. sandbox.Sandbox is one.
type Shell interface {
	Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error)
}

// Sampling is how the model is asked; zero values leave it to the server.
type Sampling struct {
	Temperature, TopP *float64
	MaxTokens         int
	Seed              int64 // the same on every call of the episode
	TokenIDs          bool
	Extra             map[string]any
}

// Limits end an episode. A zero is no limit, except CommandTimeout and Steps, which must be set.
type Limits struct {
	Steps          int           // model calls
	CommandTimeout time.Duration // of each command
	Wall           time.Duration // of the whole episode
	Tokens         int64         // prompt and completion tokens of all calls, as the server counts
	CostUSD        float64
	Stuck          int // the same actions and observations so often in a row; 0 is off
}
