package llm

import (
	"encoding/json"
	"strconv"
	"strings"
)

// assembly puts a response together from one or many pieces.
type assembly struct {
	r     Response
	calls []wireCall
	texts struct{ content, reasoning strings.Builder }
}

// head takes what stands beside the choices.
func (s *assembly) head(a wireAnswer) {
	set := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	set(&s.r.ID, a.ID)
	set(&s.r.Model, a.Model)
	set(&s.r.WeightVersion, a.WeightVersion)
	set(&s.r.WeightVersion, a.Metadata.WeightVersion)
	if a.Usage != nil {
		s.r.Usage = a.Usage.usage()
	}
	if len(a.PromptIDs) > 0 {
		s.r.PromptIDs = a.PromptIDs
	}
}

// message takes a whole message or a piece of one.
func (s *assembly) message(m *wireMessage, f finish) {
	if f != "" {
		s.r.FinishReason = string(f)
	}
	s.texts.content.WriteString(string(m.Content))
	s.texts.reasoning.WriteString(m.reasoning())
	for i, c := range m.ToolCalls {
		s.call(i, c)
	}
}

// call finds the call that c is a piece of. Pieces go together by index; id and name
// come with the first, and some servers repeat them. Servers that give every call the
// same index, or none, start a new one with a new id.
func (s *assembly) call(position int, c wireCall) {
	if c.Index == nil && c.ID == "" && len(s.calls) > 0 && c.Function.Name == "" {
		c.Index = s.calls[len(s.calls)-1].Index
	} else if c.Index == nil {
		c.Index = &position
	}
	for i := len(s.calls) - 1; i >= 0; i-- {
		old := &s.calls[i]
		if *old.Index != *c.Index {
			continue
		}
		if c.ID != "" && old.ID != "" && c.ID != old.ID {
			break
		}
		if old.ID == "" {
			old.ID = c.ID
		}
		if old.Function.Name == "" {
			old.Function.Name = c.Function.Name
		}
		old.Function.Arguments += c.Function.Arguments
		return
	}
	s.calls = append(s.calls, c)
}

// tokens takes ids and log-probabilities in whichever spelling they come.
func (s *assembly) tokens(ch wireChoice) {
	if len(ch.PromptIDs) > 0 {
		s.r.PromptIDs = ch.PromptIDs
	}
	s.r.CompletionIDs = append(s.r.CompletionIDs, ch.TokenIDs...)
	if ch.LogProbs != nil {
		for _, lp := range ch.LogProbs.Content {
			s.r.LogProbs = append(s.r.LogProbs, lp.LogProb)
			// vLLM with return_tokens_as_token_ids writes the id where the text would be.
			if id, ok := strings.CutPrefix(lp.Token, "token_id:"); ok && len(ch.TokenIDs) == 0 {
				if n, err := strconv.ParseInt(id, 10, 32); err == nil {
					s.r.CompletionIDs = append(s.r.CompletionIDs, int32(n))
				}
			}
		}
	}
	if ch.Meta == nil {
		return
	}
	if ch.Meta.WeightVersion != "" {
		s.r.WeightVersion = ch.Meta.WeightVersion
	}
	if len(ch.TokenIDs) > 0 || ch.LogProbs != nil {
		return // said already
	}
	for _, entry := range ch.Meta.Output {
		var lp float32
		var id int32
		if len(entry) >= 2 && json.Unmarshal(entry[0], &lp) == nil && json.Unmarshal(entry[1], &id) == nil {
			s.r.LogProbs = append(s.r.LogProbs, lp)
			s.r.CompletionIDs = append(s.r.CompletionIDs, id)
		}
	}
}

// response is what was put together. Log-probabilities that do not match the ids one
// to one are dropped: attached to the wrong tokens they would be worse than none. What
// the server broke off by itself is no answer.
func (s *assembly) response() (Response, error) {
	if r := s.r.FinishReason; r == "abort" || r == "error" {
		return Response{}, &Error{Class: Transient, Detail: "the server gave up on the answer: finish_reason " + r}
	}
	s.r.Message = Message{Role: "assistant", Content: s.texts.content.String(), Reasoning: s.texts.reasoning.String()}
	for _, c := range s.calls {
		s.r.Message.ToolCalls = append(s.r.Message.ToolCalls,
			ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
	}
	if len(s.r.CompletionIDs) > 0 && len(s.r.LogProbs) != len(s.r.CompletionIDs) {
		s.r.LogProbs = nil
	}
	return s.r, nil
}
