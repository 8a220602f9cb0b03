package llm_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/llm"
	"orchard/internal/llm/llmtest"
)

func TestBudgets(t *testing.T) {
	t.Parallel()
	silentUsage := llmtest.Text("x")
	silentUsage.Response.Usage = nil
	tests := []struct {
		name   string
		reply  llmtest.Reply
		change func(*llm.Options)
		calls  int
		says   string
	}{
		{"tokens", llmtest.Text("x"), func(o *llm.Options) { o.BudgetTokens = 31 }, 3, "45 of 31 tokens"},
		{"exactly used up", llmtest.Text("x"), func(o *llm.Options) { o.BudgetTokens = 30 }, 2, "30 of 30 tokens"},
		{"dollars", llmtest.Text("x"), func(o *llm.Options) { o.BudgetUSD, o.PriceIn, o.PriceOut = 0.00003, 1, 2 }, 2, "--llm-budget-usd"},
		{"no usage reported", silentUsage, func(o *llm.Options) { o.BudgetTokens = 1000 }, 1, "no usage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.New(t, nil, llmtest.Script(tt.reply))
			var opts llm.Options
			tt.change(&opts)
			m := opts.Wrap(client(t, s.URL, tt.change))
			for i := 0; ; i++ {
				_, err := m.Chat(t.Context(), hello)
				if err == nil && i < 10 {
					continue
				}
				if !llm.Is(err, llm.OverBudget) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("call %d: got %v, want over budget and %q", i, err, tt.says)
				}
				break
			}
			if n := len(s.Requests()); n != tt.calls {
				t.Errorf("the server saw %d calls, want %d", n, tt.calls)
			}
		})
	}
}

func TestLimitHoldsCallsBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var mu sync.Mutex
	now, most := 0, 0
	s := llmtest.New(t, nil, func(int, llmtest.Request) llmtest.Reply {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return llmtest.Text("x")
	})
	m := llm.Options{Concurrency: 2}.Wrap(client(t, s.URL, nil))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := m.Chat(t.Context(), hello); err != nil {
				t.Error(err)
			}
		})
	}
	for range 8 {
		release <- struct{}{}
	}
	wg.Wait()
	if most > 2 {
		t.Errorf("%d calls at the same time, want at most 2", most)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Chat(ctx, hello); err == nil {
		t.Error("a cancelled caller got an answer")
	}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	noUsage := llmtest.Text("x")
	noUsage.Response.Usage = nil
	s := llmtest.New(t, nil, llmtest.Script(llmtest.Text("a"), noUsage, llmtest.Reply{Status: 400, Body: "no"}, llmtest.Text("b")))
	c := llm.Count(client(t, s.URL, func(o *llm.Options) { o.PriceOut = 1_000_000 }))
	if tot := c.Totals(); tot.PromptTokens != nil || tot.Calls != 0 {
		t.Errorf("before the first call: %+v, want nothing known", tot)
	}
	for range 4 {
		_, _ = c.Chat(t.Context(), hello) // one of them is meant to fail
	}
	prompt, completion, usd := int64(20), int64(10), 10.0
	if d := cmp.Diff(llm.Totals{Calls: 3, PromptTokens: &prompt, CompletionTokens: &completion, CostUSD: &usd}, c.Totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}
