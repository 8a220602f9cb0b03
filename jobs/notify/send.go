package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

const patience = 15 * time.Second // with one request

// send posts the message until the webhook takes it. It is the same message each time, and says
// so by its key.
func (c Config) send(ctx context.Context, body []byte) error {
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	pause := c.Pause
	for tries := 1; ; tries++ {
		again, err := c.post(ctx, client, body)
		if err == nil || !again {
			return err
		}
		if tries > c.Retries {
			return exit.Gonef("the webhook did not take the message in %d tries: %w", tries, err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post sends once. Its errors do not have the address, which is a secret.
func (c Config) post(ctx context.Context, client *http.Client, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(c.Webhook), bytes.NewReader(body))
	if err != nil {
		return false, exit.Configf("%s is no address that can be posted to", variable)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", seal.ID(c.Pipeline, c.RunID, c.Status))
	resp, err := client.Do(req)
	if err != nil {
		var at *url.Error // it has the address, and what is in it has not
		if errors.As(err, &at) {
			err = at.Err
		}
		return ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // what it says may repeat the address
	switch {
	case resp.StatusCode/100 == 2:
		return false, nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return true, fmt.Errorf("it answers %s", resp.Status)
	}
	return false, exit.Configf("the webhook refuses the message with %s: is %s right?", resp.Status, variable)
}
