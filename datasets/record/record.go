// Package record is the rows that datasets hold, as plain Go structs.
//
// The json tag of a field is its column name; datasets/arrowio derives the Arrow
// schema from these types, so a change here is a change of format and needs a new
// schema version. Rules that hold for every row:
//
//   - ids are lower-case hex from internal/seal and hold neither image digest nor shard count;
//   - rewards are *float64: nil is "we do not know", never 0;
//   - times are UTC with microseconds, durations int64 milliseconds (suffix _ms);
//   - lists are never null: nothing is an empty list;
//   - a field tagged volatile:"true" may differ between two runs of the same inputs
//     (times, usage, raw observations); all others are equal;
//   - a field tagged blob:"true" is the sha256 of a blob in the same store, or "": what
//     checks, copies or collects a dataset follows these fields.
//
// The package imports the standard library only.
package record

import (
	"time"
	"unicode/utf8"
)

// Text is bytes that are nearly always valid UTF-8. Value is what people and models
// read. Blob, when not empty, is the sha256 of a blob in the same store that holds
// the exact bytes: Value is then shortened, or has U+FFFD for invalid bytes.
type Text struct {
	Value string `json:"value"`
	Blob  string `json:"blob" blob:"true"`
	Bytes int64  `json:"bytes"` // of the exact content
}

// Exact is a Text that needs no blob; ok is false when b is not valid UTF-8.
func Exact(b []byte) (t Text, ok bool) {
	return Text{Value: string(b), Bytes: int64(len(b))}, utf8.Valid(b)
}

// Row is what every dataset row is: something with an id that is unique in its version
// and a type with a name. Both methods work on the zero value.
type Row interface {
	// Key is the row's id; a version holds its rows sorted by it.
	Key() string
	// Schema names the row type. The version rises when a field is renamed, retyped or
	// removed; a new nullable field keeps it.
	Schema() (name string, version int)
}

// Usage is what a unit cost. Token counts are nil when no server reported them.
type Usage struct {
	ModelCalls       int64    `json:"model_calls"`
	PromptTokens     *int64   `json:"prompt_tokens"`
	CachedTokens     *int64   `json:"cached_tokens"`
	CompletionTokens *int64   `json:"completion_tokens"`
	TokenSource      string   `json:"token_source"` // "server", "" when the counts are nil
	CostUSD          *float64 `json:"cost_usd"`     // nil without a price table
	SandboxMS        int64    `json:"sandbox_ms"`
}

// Add is the sum of two usages; a count that one side does not know stays what the other knows.
func (u Usage) Add(v Usage) Usage {
	u.ModelCalls += v.ModelCalls
	u.SandboxMS += v.SandboxMS
	u.PromptTokens = Sum(u.PromptTokens, v.PromptTokens)
	u.CachedTokens = Sum(u.CachedTokens, v.CachedTokens)
	u.CompletionTokens = Sum(u.CompletionTokens, v.CompletionTokens)
	u.CostUSD = Sum(u.CostUSD, v.CostUSD)
	if u.TokenSource == "" {
		u.TokenSource = v.TokenSource
	}
	return u
}

// Sum adds what is known and leaves a and b as they are; nil is not known.
func Sum[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	s := *a + *b
	return &s
}

// Span is when something ran.
type Span struct {
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
}
