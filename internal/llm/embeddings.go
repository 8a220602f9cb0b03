package llm

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/cenkalti/backoff/v5"
)

// embeddings is where a server answers them.
const embeddings = "/embeddings"

// Embeddings asks for the vectors of texts, one for each in its order, and tries again while that
// may help. All have the same number of numbers, which are as the server sent them: of any
// length, perhaps zero, perhaps NaN. It fails like Chat, and never answers with fewer.
func (c *Client) Embeddings(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{c.model, texts, "float"})
	if err != nil {
		return nil, fmt.Errorf("encode request for model %s: %w", c.model, err)
	}
	var last error
	vectors, err := backoff.Retry(ctx, func() (out [][]float32, err error) {
		last = c.do(ctx, http.MethodPost, embeddings, body, func(_ *http.Response, from io.Reader) (err error) {
			out, err = readEmbeddings(from, len(texts))
			return err
		})
		if last != nil {
			return nil, c.pace(ctx, last)
		}
		return out, nil
	}, backoff.WithBackOff(c.backoff()), backoff.WithMaxTries(uint(c.o.MaxRetries)+1), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		return vectors, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask model %s: %w", c.model, ctx.Err())
	}
	return nil, last
}

type wireEmbeddings struct {
	Error json.RawMessage `json:"error"`
	Data  []struct {
		Index     *int            `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
}

// readEmbeddings reads n vectors. Servers may answer in any order when they number what
// they answer; those that number nothing are taken by their order.
func readEmbeddings(from io.Reader, n int) ([][]float32, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	var a wireEmbeddings
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, nonsense("the answer is no list of embeddings", b) // such as a NaN, which JSON has not
	}
	if err := (wireAnswer{Error: a.Error}).failure(); err != nil {
		return nil, err
	}
	if len(a.Data) != n {
		return nil, wrong("asked for the embeddings of %d texts, got %d", n, len(a.Data))
	}
	out := make([][]float32, n)
	for i, d := range a.Data {
		at := i
		if (d.Index != nil) != (a.Data[0].Index != nil) {
			return nil, wrong("some embeddings have an index and some have none")
		}
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || out[at] != nil {
			return nil, wrong("embedding %d of %d has the index %d, which is out of range or there twice", i, n, at)
		}
		if out[at], err = numbers(d.Embedding); err != nil {
			return nil, wrong("embedding %d of %d: %v", i, n, err)
		}
	}
	for i, v := range out {
		if len(v) != len(out[0]) {
			return nil, wrong("embedding 0 of one answer has %d numbers and embedding %d has %d", len(out[0]), i, len(v))
		}
	}
	return out, nil
}

func wrong(format string, a ...any) *Error {
	return &Error{Class: Nonsense, Detail: fmt.Sprintf(format, a...)}
}

// numbers reads a vector: a list, or base64 of little-endian float32.
func numbers(raw json.RawMessage) ([]float32, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(b) == 0 || len(b)%4 != 0 {
			return nil, fmt.Errorf("is neither a list of numbers nor base64 of float32")
		}
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return v, nil
	}
	var list []*float32 // a null is no number, and must not become 0
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("is no list of numbers")
	}
	v := make([]float32, len(list))
	for i, f := range list {
		if f == nil {
			return nil, fmt.Errorf("number %d is null", i)
		}
		v[i] = *f
	}
	return v, nil
}
