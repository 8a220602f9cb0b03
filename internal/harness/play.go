package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orchard/datasets/record"
	"orchard/internal/llm"
)

// mini is a version of mini-swe-agent.
type mini struct {
	protocol protocol
	prompts  prompts
}

var _ Harness = (*mini)(nil)

// Name is the name that New knows it by.
func (m *mini) Name() string { return m.protocol.name }

// Run plays one task: see Harness.
func (m *mini) Run(ctx context.Context, e Episode) (record.Trajectory, error) {
	if e.Clock == nil {
		e.Clock = time.Now
	}
	p := &play{protocol: m.protocol, prompts: m.prompts, Episode: e}
	p.t = record.Trajectory{
		TemplateID: m.prompts.id, Tools: toolsJSON(m.protocol.tools),
		Messages: []record.Message{}, Steps: []record.Step{},
	}
	if err := e.check(); err != nil {
		return p.t, err
	}
	p.started = e.Clock()
	for _, role := range []string{"system", "user"} {
		text, err := p.prompts.render(map[string]string{"system": "system", "user": "instance"}[role], p.vars())
		if err != nil {
			return p.t, err
		}
		p.say(llm.Message{Role: role, Content: text}, true)
	}
	for p.t.ExitStatus == "" {
		if status, name := p.overLimit(); status != "" {
			p.end(status, name, "")
			break
		}
		if err := p.step(ctx); err != nil {
			return p.t, err
		}
	}
	return p.t, nil
}

// check finds what the caller forgot; each would show late or as something else.
func (e Episode) check() error {
	switch {
	case e.Model == nil, e.Shell == nil, e.Keep == nil:
		return errors.New("episode: Model, Shell and Keep must be set")
	case e.Limits.Steps <= 0:
		return fmt.Errorf("episode: the limit of steps is %d, and must be positive", e.Limits.Steps)
	case e.Limits.CommandTimeout <= 0:
		return fmt.Errorf("episode: the timeout of commands is %s, and must be positive", e.Limits.CommandTimeout)
	case e.Limits.Stuck == 1:
		return errors.New("episode: the limit of repetitions is 1, and must be 0 or at least 2")
	}
	return nil
}

// play is an episode under way.
type play struct {
	Episode
	protocol protocol
	prompts  prompts

	t       record.Trajectory
	sent    []llm.Message // the conversation as the model sees it
	started time.Time

	calls        int // of the model, rejected answers too
	tokens       int64
	usd          float64
	formatErrors int      // in a row
	before       []string // what the last step did, for happened
	repeats      int
}

func (p *play) vars() vars {
	return vars{
		Task: p.Statement, Workdir: p.Workdir, Steps: p.Limits.Steps,
		Timeout: int(p.Limits.CommandTimeout / time.Second),
	}
}

// say records a message, and shows it to the model when it is kept. It belongs to the
// newest step.
func (p *play) say(m llm.Message, kept bool) {
	row := record.Message{
		Role: m.Role, Content: m.Content, Reasoning: m.Reasoning, ToolCalls: []record.ToolCall{},
		ToolCallID: m.ToolCallID, Step: int64(len(p.t.Steps)) - 1, Kept: kept,
	}
	for _, c := range m.ToolCalls {
		row.ToolCalls = append(row.ToolCalls, record.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	p.t.Messages = append(p.t.Messages, row)
	if !kept {
		return
	}
	if !p.protocol.echoReasoning {
		m.Reasoning = ""
	}
	p.sent = append(p.sent, m)
}

// end closes the trajectory. The detail is the name that the original gives the end.
func (p *play) end(status, detail, last string) {
	p.t.ExitStatus, p.t.ExitDetail = status, detail
	if last == "" && p.protocol.namesLimit && status != record.ExitSubmitted {
		last = detail
	}
	p.say(llm.Message{Role: p.protocol.endRole, Content: last}, false)
}

// overLimit is the limit that forbids another call, if any. The names are the
// original's, which has one for all budgets and none of its own for tokens.
func (p *play) overLimit() (status, name string) {
	l := p.Limits
	switch {
	case l.Steps <= p.calls:
		return record.ExitStepLimit, "LimitsExceeded"
	case 0 < l.CostUSD && l.CostUSD <= p.usd:
		return record.ExitCostLimit, "LimitsExceeded"
	case 0 < l.Tokens && l.Tokens <= p.tokens:
		return record.ExitTokenLimit, "LimitsExceeded"
	case 0 < l.Wall && l.Wall <= p.Clock().Sub(p.started):
		return record.ExitTimeLimit, "TimeExceeded"
	}
	return "", ""
}

// countable is an error when the server does not say what a limit needs to know: the
// limit would never be reached, and nobody would notice.
func (l Limits) countable(r llm.Response) error {
	switch {
	case l.Tokens > 0 && r.Usage == nil:
		return errors.New("the model server reports no usage, so the limit of tokens cannot be kept")
	case l.CostUSD > 0 && r.CostUSD == nil:
		return errors.New("the cost of a call is unknown, so the limit of cost cannot be kept; give --llm-price-in and --llm-price-out")
	}
	return nil
}

// step is one answer of the model and all that follows from it.
func (p *play) step(ctx context.Context) error {
	resp, err := p.ask(ctx)
	switch {
	case llm.Is(err, llm.TooLong):
		p.end(record.ExitTokenLimit, "ContextWindowExceededError", "")
		return nil
	case llm.Is(err, llm.Filtered):
		p.end(record.ExitContentFiltered, "ContentPolicyViolationError", "")
		return nil
	case err != nil:
		return err
	}
	if resp.FinishReason == "content_filter" {
		p.say(resp.Message, false)
		p.end(record.ExitContentFiltered, "ContentPolicyViolationError", "")
		return nil
	}
	actions, bad := p.protocol.parse(resp.Message)
	if bad != nil {
		return p.reject(ctx, resp, bad)
	}
	p.formatErrors = 0
	p.say(resp.Message, true)
	return p.act(ctx, actions)
}

// ask calls the model and opens the step with its answer.
func (p *play) ask(ctx context.Context) (llm.Response, error) {
	r := llm.Request{
		Messages: p.sent, Tools: p.protocol.tools, Temperature: p.Sampling.Temperature, TopP: p.Sampling.TopP,
		MaxTokens: p.Sampling.MaxTokens, Seed: &p.Sampling.Seed, TokenIDs: p.Sampling.TokenIDs, Extra: p.Sampling.Extra,
	}
	if len(r.Tools) > 0 {
		several := true
		r.ParallelToolCalls = &several
	}
	p.calls++
	start := p.Clock()
	resp, err := p.Model.Chat(ctx, r)
	if err != nil {
		return resp, err
	}
	if err := p.Limits.countable(resp); err != nil {
		return resp, err
	}
	resp.Message.Role = "assistant"
	s := record.Step{
		FinishReason: resp.FinishReason, Actions: []record.Action{}, WeightVersion: resp.WeightVersion,
		PromptTokenIDs: list(resp.PromptIDs), CompletionIDs: list(resp.CompletionIDs), LogProbs: list(resp.LogProbs),
		ModelMS: p.Clock().Sub(start).Milliseconds(),
	}
	if u := resp.Usage; u != nil {
		s.PromptTokens, s.CompletionTokens = &u.PromptTokens, &u.CompletionTokens
		p.tokens += u.PromptTokens + u.CompletionTokens
	}
	if resp.CostUSD != nil {
		p.usd += *resp.CostUSD
	}
	p.t.Steps = append(p.t.Steps, s)
	return resp, nil
}

// list is v, and never null.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// reject tells the model that its answer could not be followed.
func (p *play) reject(ctx context.Context, resp llm.Response, bad *rejection) error {
	v := p.vars()
	v.Error, v.Blocks, v.FinishReason = bad.reason, bad.blocks, resp.FinishReason
	text, err := p.prompts.render("format_error", v)
	if err != nil {
		return err
	}
	p.last().FormatError = bad.reason
	p.say(resp.Message, p.protocol.keepRejected)
	p.say(llm.Message{Role: "user", Content: text}, true)
	p.formatErrors++
	p.tree(ctx)
	if most := p.protocol.maxFormatErrors; 0 < most && most <= p.formatErrors {
		p.end(record.ExitRepeatedFormat, "RepeatedFormatError", "")
		return nil
	}
	p.happened("rejected", resp.Message.Content, text)
	return nil
}

func (p *play) last() *record.Step { return &p.t.Steps[len(p.t.Steps)-1] }

// tree notes what the working tree is after the step.
func (p *play) tree(ctx context.Context) {
	if p.TreeSHA256 != nil {
		p.last().DiffSHA256 = p.TreeSHA256(ctx)
	}
}
