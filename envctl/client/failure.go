package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"orchard/internal/sandbox/httpclient/rest"
)

// NotFound says that there is no such sandbox, job, port or file, as far as the service
// remembers.
type NotFound struct{ Detail string }

func (e *NotFound) Error() string { return e.Detail }

// Gone says that a sandbox ended. What ran in it at the time is unknown.
type Gone struct {
	Reason    string // one word: "OOMKilled", "lifetime", "lease", "evicted", "deleted" …
	Detail    string // for people
	Retryable bool   // it ended through no fault of its own: the same may work in another one
}

func (e *Gone) Error() string { return e.Detail }

// Refused says that this request can never work: a field is malformed, or no machine can
// run such a sandbox.
type Refused struct{ Detail string }

func (e *Refused) Error() string { return "refused: " + e.Detail }

// Denied says that the service does not take the API key, or not for this.
type Denied struct{ Detail string }

func (e *Denied) Error() string { return "denied: " + e.Detail }

// Conflict says that something else has this name: a sandbox of another spec its id, or
// another command its Idempotency-Key.
type Conflict struct{ Detail string }

func (e *Conflict) Error() string { return e.Detail }

// QuotaExceeded says that the API key may not hold more.
type QuotaExceeded struct{ Detail string }

func (e *QuotaExceeded) Error() string { return "quota exceeded: " + e.Detail }

// Unavailable says that the service was not reached, or asks to come later, for longer
// than Options.Patience. Whether it did what it was asked is unknown.
type Unavailable struct{ Err error }

func (e *Unavailable) Error() string { return "sandbox service unavailable: " + e.Err.Error() }
func (e *Unavailable) Unwrap() error { return e.Err }

// Failure is any other refusal of the service.
type Failure struct {
	Status int // HTTP's
	Detail string
}

func (e *Failure) Error() string { return e.Detail }

// explain is err, of doing something, as one of the types above.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, typed(err))
}

func typed(err error) error {
	var e *rest.Error
	switch {
	case !errors.As(err, &e):
		if errors.Is(err, context.Canceled) || errors.Is(err, rest.ErrOther) || !rest.Transient(err) {
			return err
		}
		return &Unavailable{err}
	case e.Gone && e.Reason != "":
		return &Gone{Reason: e.Reason, Detail: e.Detail, Retryable: e.Retryable}
	}
	switch e.Status {
	case http.StatusNotFound:
		return &NotFound{e.Detail}
	case http.StatusUnauthorized, http.StatusForbidden:
		return &Denied{e.Detail}
	case http.StatusConflict:
		return &Conflict{e.Detail}
	case http.StatusUnprocessableEntity:
		return &Refused{e.Detail}
	case http.StatusTooManyRequests:
		return &QuotaExceeded{e.Detail}
	}
	if e.Busy {
		return &Unavailable{errors.New(e.Detail)}
	}
	return &Failure{e.Status, e.Detail}
}

func escape(segment string) string { return url.PathEscape(segment) }
