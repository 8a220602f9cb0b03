package credit

import (
	"context"
	"errors"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/rollout"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
	"orchard/jobs/credit/annotate"
	"orchard/jobs/credit/curve"
)

// tooLong is the reason of an answer that could not be asked for.
const tooLong = "too_long"

// mostShrinks is how often a question that is over the model's context is shortened.
const mostShrinks = 4

// wire makes what the method needs, and the check that it answers. Where nobody is asked
// it makes nothing.
func (s *stage) wire(d runner.Deps) (play.Check, error) {
	if !play.Asks(s.Config.Config) {
		return nil, nil
	}
	if s.Method == record.CreditExecution {
		grader, check, err := s.Boxes.Grading(s.Config.Config, d.Now)
		s.grader = grader
		return check, err
	}
	client, err := llm.New(s.LLM)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	s.model = s.LLM.Wrap(client)
	return func(ctx context.Context) error { return llm.Exit(client.Check(ctx)) }, nil
}

// unasked marks the errors of a call after which no other unit can do better. All others
// are trouble of ours, and none says anything about the trajectory.
func unasked(err error) error {
	var e *llm.Error
	switch {
	case llm.Is(err, llm.OverBudget):
		return exit.With(exit.Gone, err)
	case errors.As(err, &e) && (e.Status == 401 || e.Status == 403 || e.Status == 404):
		return exit.With(exit.Config, err)
	}
	return err
}

// teach has the teacher value the key steps of a failed rollout.
func (s *stage) teach(ctx context.Context, row record.Credit, r record.Rollout, t runner.Tools) (record.Credit, error) {
	n := len(r.Trajectory.Steps)
	row.Annotator, row.TemplateID, row.Moment = s.LLM.Model, annotate.TemplateID(s.Curve.When), string(s.Curve.When)
	if n < annotate.FewestKeys {
		row.Status = record.CreditTooShort
		return row, nil
	}
	meter := llm.Count(s.model)
	keys, err := s.ask(ctx, meter, &row, r, t)
	row.Usage = rollout.Usage(meter.Totals())
	if err != nil {
		return row, unasked(err)
	}
	if keys == nil {
		row.Status = record.CreditFailed
		return row, nil
	}
	row.Status = record.CreditAnnotated
	points := make([]curve.Point, len(keys))
	for i, k := range keys {
		points[i] = curve.Point{Step: k.Step, P: k.P}
		row.Keys = append(row.Keys, record.KeyStep{Step: int64(k.Step), Probability: k.P, Reasoning: k.Reasoning})
	}
	c, err := curve.Of(points, n, s.Curve)
	if err != nil {
		return row, exit.With(exit.Bug, err)
	}
	draw(&row, c)
	return row, nil
}

// ask is the key steps, nil when no answer can be used. A question that turns out to be
// over the model's context is asked again in half as many characters.
func (s *stage) ask(ctx context.Context, m llm.Model, row *record.Credit, r record.Rollout, t runner.Tools) ([]annotate.Key, error) {
	limits := s.Limits
	for shrink := 0; ; shrink++ {
		p, err := annotate.Ask(r, s.Curve.When, limits)
		if err == nil {
			row.PromptChars, row.CutParts, row.CutChars = int64(p.Chars), int64(p.CutParts), int64(p.CutChars)
			row.Answers = []record.CreditAnswer{}
			var keys []annotate.Key
			if keys, err = s.converse(ctx, m, p, row, t); err == nil {
				return keys, nil
			}
		}
		switch {
		case errors.Is(err, annotate.ErrTooLong), llm.Is(err, llm.TooLong) && shrink == mostShrinks:
			row.Answers = append(row.Answers, record.CreditAnswer{Reason: tooLong, Detail: err.Error()})
			return nil, nil
		case !llm.Is(err, llm.TooLong):
			return nil, err
		}
		limits.Total = p.Chars / 2
	}
}

// converse asks until an answer keeps the rules, or there were enough.
func (s *stage) converse(ctx context.Context, m llm.Model, p annotate.Prompt, row *record.Credit, t runner.Tools) ([]annotate.Key, error) {
	messages := []llm.Message{{Role: "system", Content: p.System}, {Role: "user", Content: p.User}}
	for range 1 + s.ReAsks {
		resp, err := m.Chat(ctx, llm.Request{Messages: messages, Temperature: s.temperature(), MaxTokens: s.MaxTokens, Seed: &t.Seed})
		if llm.Is(err, llm.Filtered) {
			row.Answers = append(row.Answers, record.CreditAnswer{Reason: annotate.Filtered, Detail: err.Error()})
			return nil, nil // it would refuse the same question again
		}
		if err != nil {
			return nil, err
		}
		keys, wrong := judge(resp, int(row.Steps))
		answer := record.CreditAnswer{}
		if answer.Answer, err = t.Keep(ctx, []byte(resp.Message.Content)); err != nil {
			return nil, err
		}
		if wrong != nil {
			answer.Reason, answer.Detail = wrong.Reason, wrong.Detail
		}
		if row.Answers = append(row.Answers, answer); wrong == nil {
			return keys, nil
		}
		again, err := annotate.Again(wrong, int(row.Steps))
		if err != nil {
			return nil, err
		}
		said := resp.Message.Content
		if said == "" {
			said = "(no answer)" // servers refuse a message with nothing in it
		}
		messages = append(messages, llm.Message{Role: "assistant", Content: said}, llm.Message{Role: "user", Content: again})
	}
	return nil, nil
}

// judge reads an answer about n steps.
func judge(resp llm.Response, n int) ([]annotate.Key, *annotate.Reject) {
	if resp.FinishReason == "content_filter" {
		return nil, &annotate.Reject{Reason: annotate.Filtered, Detail: "the server's content filter stopped the answer"}
	}
	keys, err := annotate.Read(resp.Message.Content, n)
	var wrong *annotate.Reject
	if errors.As(err, &wrong) && wrong.Reason == annotate.NoArray && resp.FinishReason == "length" {
		wrong = &annotate.Reject{Reason: annotate.CutOff, Detail: "the answer was cut off before the array was finished; write less before it and in it"}
	}
	return keys, wrong
}
