package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Error is an answer that is not a success.
type Error struct {
	Status     int
	Detail     string
	Gone       bool   // the sandbox is not there, or not any more
	Reason     string // why it ended
	Refused    bool   // this sandbox can never start
	Retryable  bool   // it ended through no fault of its own
	Busy       bool   // the same request may work later
	RetryAfter int    // then after so many seconds, when above 0
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// Transient reports whether the same request may work later: the service is not
// reached, broke off, or says so.
func Transient(err error) bool {
	var e *Error
	return !errors.As(err, &e) || e.Busy
}

// IsStatus reports whether err is an answer of this status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

func refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read error %d: %w", resp.StatusCode, err)
	}
	var b struct {
		Detail    json.RawMessage `json:"detail"`
		Gone      bool            `json:"gone"`
		Reason    string          `json:"reason"`
		Refused   bool            `json:"refused"`
		Retryable bool            `json:"retryable"`
	}
	e := &Error{Status: resp.StatusCode}
	if json.Unmarshal(raw, &b) != nil || len(b.Detail) == 0 {
		e.Detail = fmt.Sprintf("%.300q", raw)
	} else if json.Unmarshal(b.Detail, &e.Detail) != nil {
		e.Detail = fields(b.Detail)
	}
	e.Gone, e.Reason, e.Refused, e.Retryable = b.Gone, b.Reason, b.Refused, b.Retryable
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Busy = true
		if e.RetryAfter, err = strconv.Atoi(resp.Header.Get("Retry-After")); err != nil {
			e.RetryAfter = 0
		}
	}
	return e
}

// fields is a detail that is no text as one: of a list of bad fields what is wrong
// with each, of anything else the JSON.
func fields(detail json.RawMessage) string {
	var list []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(detail, &list) != nil || len(list) == 0 {
		return string(detail)
	}
	var b strings.Builder
	for i, f := range list {
		if i > 0 {
			b.WriteString("; ")
		}
		if n := len(f.Loc); n > 0 {
			fmt.Fprintf(&b, "%v: ", f.Loc[n-1])
		}
		b.WriteString(f.Msg)
	}
	return b.String()
}
