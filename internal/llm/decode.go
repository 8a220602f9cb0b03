package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// wireAnswer is a whole answer or one chunk of a streamed one: a choice has a Message
// in the first case and a Delta in the second. Unknown fields are ignored.
type wireAnswer struct {
	ID            string          `json:"id"`
	Model         string          `json:"model"`
	Choices       []wireChoice    `json:"choices"`
	Usage         *wireUsage      `json:"usage"`
	PromptIDs     []int32         `json:"prompt_token_ids"` // vLLM
	WeightVersion string          `json:"weight_version"`
	Metadata      wireMetadata    `json:"metadata"` // SGLang
	Error         json.RawMessage `json:"error"`
}

type wireMetadata struct {
	WeightVersion string `json:"weight_version"`
}

type wireChoice struct {
	Index        int          `json:"index"`
	Message      *wireMessage `json:"message"`
	Delta        *wireMessage `json:"delta"`
	FinishReason finish       `json:"finish_reason"`
	LogProbs     *struct {
		Content []wireLogProb `json:"content"`
	} `json:"logprobs"`
	TokenIDs  []int32   `json:"token_ids"`        // vLLM and SGLang
	PromptIDs []int32   `json:"prompt_token_ids"` // SGLang
	Meta      *wireMeta `json:"meta_info"`        // SGLang's native fields
}

// wireMeta is what SGLang's own route says; each entry is [logprob, token id, text].
type wireMeta struct {
	Output        [][]json.RawMessage `json:"output_token_logprobs"`
	WeightVersion string              `json:"weight_version"`
}

type wireLogProb struct {
	Token   string  `json:"token"`
	LogProb float32 `json:"logprob"`
}

type wireMessage struct {
	Content          text       `json:"content"`
	ReasoningContent string     `json:"reasoning_content"`
	Reasoning        string     `json:"reasoning"` // vLLM from 0.16
	ToolCalls        []wireCall `json:"tool_calls"`
}

// reasoning is the text in either spelling; servers that send both repeat it.
func (m *wireMessage) reasoning() string {
	if m.ReasoningContent != "" {
		return m.ReasoningContent
	}
	return m.Reasoning
}

type wireCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string    `json:"name,omitempty"`
	Arguments arguments `json:"arguments"`
}

// arguments is a JSON string on the wire; servers that send the object itself are
// understood, and what they sent is kept as text.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	*a = arguments(word(b))
	return nil
}

// text is a string, null, or a list of parts of which the text ones count.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = text(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("content is neither a string nor a list of parts: %w", err)
	}
	for _, p := range parts {
		*t += text(p.Text)
	}
	return nil
}

// finish is a string, null, or SGLang's object with a type.
type finish string

func (f *finish) UnmarshalJSON(b []byte) error {
	var object struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b, &object) == nil {
		*f = finish(object.Type) // null gives none
		return nil
	}
	return json.Unmarshal(b, (*string)(f))
}

type wireUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	PromptMore *struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *wireUsage) usage() *Usage {
	if u == nil {
		return nil
	}
	out := &Usage{PromptTokens: u.Prompt, CompletionTokens: u.Completion}
	if u.PromptMore != nil {
		out.CachedTokens = u.PromptMore.Cached
	}
	if u.CompletionMore != nil {
		out.ReasoningTokens = u.CompletionMore.Reasoning
	}
	return out
}

// readWhole reads an answer that is not streamed.
func readWhole(from io.Reader) (Response, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return Response{}, err
	}
	var a wireAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return Response{}, nonsense("the answer is no chat completion", b)
	}
	if err := a.failure(); err != nil {
		return Response{}, err
	}
	var asm assembly
	asm.head(a)
	for _, ch := range a.Choices {
		if ch.Index != 0 {
			continue
		}
		if ch.Message == nil {
			return Response{}, nonsense("the answer has a choice without a message", b)
		}
		asm.tokens(ch)
		asm.message(ch.Message, ch.FinishReason)
		return asm.response()
	}
	return Response{}, nonsense("the answer has no choices", b)
}

// failure is the error that some servers send with status 200.
func (a wireAnswer) failure() error {
	if len(a.Error) == 0 || string(a.Error) == "null" {
		return nil
	}
	r := parseReason([]byte(`{"error":` + string(a.Error) + `}`))
	status, err := strconv.Atoi(r.Code)
	if err != nil || status < 400 || status > 599 {
		status = 500 // nothing says that the request is at fault
		if tooLong.MatchString(r.Code+" "+r.Message) || filtered.MatchString(r.Code) {
			status = 400
		}
	}
	return &Error{Class: r.class(status), Status: status, Detail: clip(r.Message)}
}
