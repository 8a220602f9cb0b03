package llm

import (
	"context"
	"fmt"
	"sync"

	"orchard/datasets/record"
)

// modelFunc is a Model made of a function.
type modelFunc func(ctx context.Context, r Request) (Response, error)

func (f modelFunc) Chat(ctx context.Context, r Request) (Response, error) { return f(ctx, r) }

// Limit lets at most n calls of m run at the same time; n must be positive. A call
// that is backing off keeps its place, so a server that asks for patience gets it.
func Limit(m Model, n int) Model {
	slots := make(chan struct{}, n)
	return modelFunc(func(ctx context.Context, r Request) (Response, error) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return Response{}, fmt.Errorf("wait for a free call to the model: %w", ctx.Err())
		}
		defer func() { <-slots }()
		return m.Chat(ctx, r)
	})
}

// Budget refuses calls, with OverBudget, once the answers so far have used tokens
// tokens (prompt and completion) or usd US dollars; 0 is no limit. Calls in flight
// when the limit is reached are finished, so it is overshot by at most those. A server
// that reports no usage makes a budget impossible to keep: the call after is refused.
func Budget(m Model, tokens int64, usd float64) Model {
	b := &budget{tokens: tokens, usd: usd}
	return modelFunc(func(ctx context.Context, r Request) (Response, error) {
		if why := b.over(); why != "" {
			return Response{}, &Error{Class: OverBudget, Detail: why}
		}
		resp, err := m.Chat(ctx, r)
		if err == nil {
			b.add(resp)
		}
		return resp, err
	})
}

type budget struct {
	tokens int64
	usd    float64

	mu          sync.Mutex
	spentTokens int64
	spentUSD    float64
	unknown     bool // an answer came without usage or price
}

func (b *budget) over() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.unknown:
		return "the server reports no usage, so --llm-budget-tokens and --llm-budget-usd cannot be kept"
	case b.tokens > 0 && b.spentTokens >= b.tokens:
		return fmt.Sprintf("%d of %d tokens are used (--llm-budget-tokens)", b.spentTokens, b.tokens)
	case b.usd > 0 && b.spentUSD >= b.usd:
		return fmt.Sprintf("%.4f of %.4f US dollars are spent (--llm-budget-usd)", b.spentUSD, b.usd)
	}
	return ""
}

func (b *budget) add(r Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Usage == nil || (b.usd > 0 && r.CostUSD == nil) {
		b.unknown = true
		return
	}
	b.spentTokens += r.Usage.PromptTokens + r.Usage.CompletionTokens
	if r.CostUSD != nil {
		b.spentUSD += *r.CostUSD
	}
}

// Totals is what a Counter counted. A sum is nil when no answer had the count.
type Totals struct {
	Calls                                        int64 // that were answered
	PromptTokens, CachedTokens, CompletionTokens *int64
	CostUSD                                      *float64
}

// Counter is a Model that adds up what its calls used. Safe for concurrent use.
type Counter struct {
	m  Model
	mu sync.Mutex
	t  Totals
}

var _ Model = (*Counter)(nil)

// Count is a Counter around m.
func Count(m Model) *Counter { return &Counter{m: m} }

// Chat asks the model and counts the answer.
func (c *Counter) Chat(ctx context.Context, r Request) (Response, error) {
	resp, err := c.m.Chat(ctx, r)
	if err != nil {
		return resp, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Calls++
	if u := resp.Usage; u != nil {
		c.t.PromptTokens = record.Sum(c.t.PromptTokens, &u.PromptTokens)
		c.t.CompletionTokens = record.Sum(c.t.CompletionTokens, &u.CompletionTokens)
		c.t.CachedTokens = record.Sum(c.t.CachedTokens, u.CachedTokens)
	}
	c.t.CostUSD = record.Sum(c.t.CostUSD, resp.CostUSD)
	return resp, nil
}

// Totals is the sums up to now.
func (c *Counter) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}
