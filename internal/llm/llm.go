// Package llm is one client for every OpenAI-compatible model server: chat
// completions with tools, streamed or not, with retries, budgets and usage.
//
// It knows nothing of tasks. A model that cannot be asked is an error with a class
// (see Error), never an empty answer: the callers above turn "could not ask" into
// infra_error and must not mistake it for a bad answer.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Model answers requests. Safe for concurrent use. Budgets, limits and recording are
// wrappers of the same interface.
type Model interface {
	Chat(ctx context.Context, r Request) (Response, error)
}

// Request is one chat completion. Zero values are left out of the wire request.
type Request struct {
	Messages          []Message
	Tools             []Tool
	ParallelToolCalls *bool
	Temperature, TopP *float64
	MaxTokens         int // of the answer; 0 is the server's default
	Seed              *int64
	Stop              []string
	Stream            bool
	TokenIDs          bool           // ask for token ids and log-probs (vLLM, SGLang spelling)
	Extra             map[string]any // further top-level fields, sent as they are
}

// Message is one turn. Arguments of tool calls are JSON strings, kept as sent.
type Message struct {
	Role       string // system, user, assistant, tool
	Content    string
	Reasoning  string
	ToolCalls  []ToolCall
	ToolCallID string
	Name       string
}

// ToolCall is a call that the model asked for.
type ToolCall struct {
	ID, Name, Arguments string
}

// Tool is a function offered to the model; Parameters is its JSON schema.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// Response is the first choice of an answer.
type Response struct {
	Message       Message
	FinishReason  string // raw: stop, length, tool_calls, content_filter, …
	Model, ID     string
	Usage         *Usage // nil when the server sent none
	PromptIDs     []int32
	CompletionIDs []int32
	LogProbs      []float32
	WeightVersion string   // of servers that say so
	CostUSD       *float64 // of this call; nil without a price or without usage
}

// Usage is what the server counted. Details that it did not send are nil.
type Usage struct {
	PromptTokens, CompletionTokens int64
	CachedTokens, ReasoningTokens  *int64
}

// Class says what a caller can do about a failed call.
type Class int

// The classes.
const (
	Transient   Class = iota // retried already; another time may work
	Refused                  // the server said no to this request for good: bad model, bad key, bad schema
	TooLong                  // the prompt is over the model's context: the rollout ends with token_limit
	OverBudget               // our own token, money or deadline budget is used up
	Nonsense                 // the server answered something that is no chat completion
	Unreachable              // nothing listens there, or TLS or DNS fails
	Filtered                 // the server's content filter refused the prompt
)

func (c Class) String() string {
	return [...]string{"transient", "refused", "too long", "over budget", "nonsense", "unreachable", "content filtered"}[c]
}

// Error is a failed call. Status is the HTTP status, 0 without an answer; RetryAfter
// is what the server asked for, 0 when it did not.
type Error struct {
	Class      Class
	Status     int
	RetryAfter time.Duration
	URL        string // without query and credentials
	Detail     string
	Err        error
}

func (e *Error) Error() string {
	s := "model server"
	if e.URL != "" { // a call that our own budget refused went nowhere
		s += " " + e.URL
	}
	s += ": " + e.Class.String()
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is a failed call of class c.
func Is(err error, c Class) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == c
}
