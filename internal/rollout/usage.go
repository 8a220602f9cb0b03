package rollout

import (
	"orchard/datasets/record"
	"orchard/internal/llm"
)

// Usage is what the model calls of a unit cost, by the server's own count.
func Usage(t llm.Totals) record.Usage {
	u := record.Usage{
		ModelCalls: t.Calls, PromptTokens: t.PromptTokens, CachedTokens: t.CachedTokens,
		CompletionTokens: t.CompletionTokens, CostUSD: t.CostUSD,
	}
	if t.PromptTokens != nil || t.CompletionTokens != nil {
		u.TokenSource = "server"
	}
	return u
}
