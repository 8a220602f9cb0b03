package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Check asks the server once, before a run, whether it will answer: it is reachable,
// accepts the key and has the model. A server that does not list its models, or not
// this one, is asked for one token instead. The error says which of these fails.
func (c *Client) Check(ctx context.Context) error {
	names, err := c.models(ctx)
	var e *Error
	switch {
	case err == nil && slices.Contains(names, c.model):
		return nil
	case err == nil:
	case errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Class == Nonsense):
	default:
		return fmt.Errorf("check model server: %w", err)
	}
	body, err := encode(c.model, Request{Messages: []Message{{Role: "user", Content: "ping"}}, MaxTokens: 1})
	if err != nil {
		return err
	}
	if _, err = c.once(ctx, body, false); err == nil {
		return nil
	}
	if Is(err, Refused) && len(names) > 0 {
		return fmt.Errorf("check model server: it has no model %q (--llm-model), but: %s: %w", c.model, listed(names), err)
	}
	return fmt.Errorf("check model server: %w", err)
}

func (c *Client) models(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	err := c.do(ctx, http.MethodGet, "/models", nil, func(_ *http.Response, from io.Reader) error {
		b, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		if json.Unmarshal(b, &list) != nil {
			return nonsense("the list of models is none", b)
		}
		return nil
	})
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, err
}

// listed shows the first names of a list that may be long.
func listed(names []string) string {
	const show = 10
	if len(names) <= show {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:show], ", "), len(names)-show)
}
