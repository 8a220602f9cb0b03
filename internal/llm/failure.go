package llm

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// again reports whether another try of the same request may work.
func (e *Error) again() bool {
	switch e.Class {
	case Transient:
		return true
	case Unreachable: // servers restart; a wrong certificate stays wrong
		return !badTLS(e.Err)
	default:
		return false
	}
}

// classify makes an *Error of anything that went wrong between request and answer.
func classify(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	// The outer error repeats the URL with its query.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	op, dns := (*net.OpError)(nil), (*net.DNSError)(nil)
	switch {
	case errors.Is(err, errTooLong):
		return &Error{Class: Nonsense, Err: err}
	case badTLS(err):
		return &Error{Class: Unreachable, Err: err, Detail: "TLS fails; check --llm-url (OPENAI_BASE_URL), and --llm-ca-file for a server with its own certificate authority"}
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return &Error{Class: Unreachable, Err: err, Detail: "the proxy cannot be reached; check --llm-proxy and HTTPS_PROXY"}
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return &Error{Class: Unreachable, Err: err, Detail: "nothing answers there; check that the server runs, and --llm-url (OPENAI_BASE_URL)"}
	}
	return &Error{Class: Transient, Err: err, Detail: "the connection broke"}
}

func badTLS(err error) bool {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		x      x509.UnknownAuthorityError
		host   x509.HostnameError
	)
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &x) || errors.As(err, &host)
}

// maxDetail bounds what is kept of a server's words.
const maxDetail = 500

// refusal makes an error of an answer that is not 200.
func refusal(r *http.Response, body io.Reader) *Error {
	b, _ := io.ReadAll(io.LimitReader(body, 64<<10)) // half a reason is better than none
	reason := parseReason(b)
	e := &Error{
		Class: reason.class(r.StatusCode), Status: r.StatusCode, Detail: clip(reason.Message),
		RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now()),
	}
	switch {
	case r.StatusCode/100 == 3:
		e.Detail = "the server sends callers elsewhere; give the final address in --llm-url (OPENAI_BASE_URL)"
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		e.Detail = strings.TrimSuffix("check OPENAI_API_KEY or --llm-key-file: "+e.Detail, ": ")
	case r.StatusCode == http.StatusNotFound:
		model := "--llm-model"
		if r.Request != nil && strings.HasSuffix(r.Request.URL.Path, embeddings) {
			model = "--embedding-model"
		}
		e.Detail = strings.TrimSuffix("check --llm-url (OPENAI_BASE_URL) and "+model+": "+e.Detail, ": ")
	}
	return e
}

// reason is the error object of OpenAI and of those that follow it, flattened.
type reason struct {
	Message, Type, Code string
}

// parseReason reads {"error": {…}}, {"error": "…"}, {"object": "error", …} and
// {"detail": …}; of anything else the text itself is the message.
func parseReason(b []byte) reason {
	var doc map[string]json.RawMessage
	if json.Unmarshal(b, &doc) != nil {
		return reason{Message: strings.TrimSpace(string(b))}
	}
	if inner := (map[string]json.RawMessage)(nil); json.Unmarshal(doc["error"], &inner) == nil && inner != nil {
		doc = inner
	}
	out := reason{Type: word(doc["type"]), Code: word(doc["code"])}
	for _, k := range []string{"message", "error", "detail"} {
		if out.Message = word(doc[k]); out.Message != "" {
			return out
		}
	}
	out.Message = strings.TrimSpace(string(b))
	return out
}

// word is a JSON string without its quotes, or any other value but null as it is written.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil { // null leaves s empty
		return s
	}
	return string(raw)
}

// tooLong recognises a prompt over the model's context, in the words of OpenAI, vLLM,
// SGLang, llama.cpp and TGI.
var tooLong = regexp.MustCompile(`(?i)context_length_exceeded|exceed_context_size|maximum context length|context length of|` +
	`model'?s context (length|window)|context window|max_model_len|longer than the (maximum )?model'?s? (context )?length|` +
	`maximum allowed (input )?length|input (tokens? )?(length )?.{0,40}exceeds? the (model|maximum|available context)|exceeds the available context size|` +
	`inputs? tokens \+ .?max_new_tokens.? must be|prompt is too long|too many tokens`)

var filtered = regexp.MustCompile(`(?i)content_filter|content_policy_violation|ResponsibleAIPolicyViolation`)

// class sorts an answer by its status and, where that says too little, its words.
func (r reason) class(status int) Class {
	all := r.Code + " " + r.Type + " " + r.Message
	switch {
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity:
		if tooLong.MatchString(all) {
			return TooLong
		}
		if filtered.MatchString(r.Code + " " + r.Type) {
			return Filtered
		}
		return Refused
	case status == http.StatusTooManyRequests && strings.Contains(r.Code+r.Type, "insufficient_quota"):
		return Refused // the account is empty; waiting does not fill it
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return Transient
	case status/100 == 2 || status/100 == 1:
		return Nonsense
	}
	return Refused
}

// retryAfter reads both forms of the header; 0 when it is absent, malformed or past.
func retryAfter(h string, now time.Time) time.Duration {
	h = strings.TrimSpace(h)
	if s, err := strconv.ParseFloat(h, 64); err == nil {
		if s > 0 && s < 1e9 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	if t, err := http.ParseTime(h); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

// nonsense is an answer that is no chat completion, with its first words.
func nonsense(what string, b []byte) *Error {
	return &Error{Class: Nonsense, Detail: fmt.Sprintf("%s: %q; check --llm-url (OPENAI_BASE_URL)", what, clip(string(b)))}
}

func clip(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return strings.ToValidUTF8(s[:maxDetail], "") + "…"
}
