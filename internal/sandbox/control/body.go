package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// body is a JSON request read as leniently as the original reads it: null is absent,
// numbers may be text and text numbers, unknown fields are ignored. Faults are
// collected, so that one answer names all.
type body struct {
	fields map[string]json.RawMessage
	faults []invalid
}

// readBody reads the whole body, so that the server then notices a client that leaves.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (*body, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fail(http.StatusRequestEntityTooLarge,
			"request body is over %d bytes; send large files with PUT /sandboxes/{id}/raw?path=", limit)
	case err != nil:
		return nil, fail(http.StatusBadRequest, "request body broke off: %v", err)
	}
	return parseBody(raw)
}

func parseBody(raw []byte) (*body, error) {
	one := func(loc []any, msg, kind string) error {
		return &failure{status: http.StatusUnprocessableEntity, invalid: []invalid{{loc, msg, kind}}}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, one([]any{"body"}, "field required", "value_error.missing")
	}
	b := &body{}
	if err := json.Unmarshal(raw, &b.fields); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, one([]any{"body", syntax.Offset}, "invalid JSON: "+syntax.Error(), "value_error.jsondecode")
		}
		return nil, one([]any{"body"}, "value is not a valid dict", "type_error.dict")
	}
	if b.fields == nil { // the body is null
		return nil, one([]any{"body"}, "field required", "value_error.missing")
	}
	return b, nil
}

// err is everything wrong so far.
func (b *body) err() error {
	if len(b.faults) == 0 {
		return nil
	}
	return &failure{status: http.StatusUnprocessableEntity, invalid: b.faults}
}

func (b *body) fault(field, kind, msg string) {
	b.faults = append(b.faults, invalid{[]any{"body", field}, msg, kind})
}

// get is a field's value, or nil when it is absent or null.
func (b *body) get(field string) json.RawMessage {
	raw := b.fields[field]
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	return raw
}

func (b *body) required(field string) {
	switch raw, ok := b.fields[field]; {
	case !ok:
		b.fault(field, "value_error.missing", "field required")
	case len(raw) > 0 && raw[0] == 'n':
		b.fault(field, "type_error.none.not_allowed", "none is not an allowed value")
	}
}

// scalar is a string, a number as it is written, or a boolean as Python writes it.
func scalar(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case 't':
		return "True", true
	case 'f':
		return "False", true
	case '{', '[', 'n':
		return "", false
	}
	return string(raw), true
}

func (b *body) text(field string) string {
	raw := b.get(field)
	if raw == nil {
		return ""
	}
	s, ok := scalar(raw)
	if !ok {
		b.fault(field, "type_error.str", "str type expected")
	}
	return s
}

var bools = map[string]bool{
	"true": true, "t": true, "1": true, "yes": true, "y": true, "on": true,
	"false": false, "f": false, "0": false, "no": false, "n": false, "off": false,
}

func (b *body) flag(field string, absent bool) bool {
	raw := b.get(field)
	if raw == nil {
		return absent
	}
	v, ok := bools[strings.ToLower(b.text(field))]
	if !ok {
		b.fault(field, "type_error.bool", "value could not be parsed to a boolean")
	}
	return v
}

// seconds is a duration of at least zero, zero when absent, cut to max.
func (b *body) seconds(field string, max time.Duration) time.Duration {
	raw := b.get(field)
	if raw == nil {
		return 0
	}
	s, ok := scalar(raw)
	d, fault := parseSeconds(s, max)
	if !ok {
		fault = &invalid{Msg: "value is not a valid integer", Type: "type_error.integer"}
	}
	if fault != nil {
		b.fault(field, fault.Type, fault.Msg)
	}
	return d
}

// parseSeconds reads a number of seconds, whole or not; nil is no fault.
func parseSeconds(s string, max time.Duration) (time.Duration, *invalid) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case (err != nil && !errors.Is(err, strconv.ErrRange)) || math.IsNaN(v):
		return 0, &invalid{Msg: "value is not a valid integer", Type: "type_error.integer"}
	case v < 0:
		return 0, &invalid{Msg: "ensure this value is greater than or equal to 0", Type: "value_error.number.not_ge"}
	case v > max.Seconds():
		return max, nil
	}
	// Rounded up to the millisecond: what is above zero stays above zero.
	return time.Duration(math.Ceil(v*1000)) * time.Millisecond, nil
}

// list is a list of strings.
func (b *body) list(field string) []string {
	raw := b.get(field)
	if raw == nil {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		b.fault(field, "type_error.list", "value is not a valid list")
		return nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		sub := &body{fields: map[string]json.RawMessage{field: item}}
		sub.required(field)
		out[i] = sub.text(field)
		for _, f := range sub.faults {
			f.Loc = append(f.Loc, i)
			b.faults = append(b.faults, f)
		}
	}
	return out
}

// dict is a map of strings.
func (b *body) dict(field string) map[string]string {
	raw := b.get(field)
	if raw == nil {
		return nil
	}
	sub := &body{}
	if json.Unmarshal(raw, &sub.fields) != nil {
		b.fault(field, "type_error.dict", "value is not a valid dict")
		return nil
	}
	out := make(map[string]string, len(sub.fields))
	for key := range sub.fields {
		sub.required(key)
		out[key] = sub.text(key)
	}
	for _, f := range sub.faults {
		f.Loc = append([]any{"body", field}, f.Loc[1:]...)
		b.faults = append(b.faults, f)
	}
	return out
}

// querySeconds is a query parameter in seconds, cut to max.
func querySeconds(q url.Values, name string, absent, max time.Duration) (time.Duration, error) {
	if !q.Has(name) {
		return absent, nil
	}
	d, fault := parseSeconds(q.Get(name), max)
	if fault != nil {
		return 0, invalidField("query", name, fault.Type, "%s", fault.Msg)
	}
	return d, nil
}
