package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// failure is an answer that is not a success. Its body is the original's:
// {"detail": TEXT} or, for a malformed request, {"detail": [invalid…]}.
type failure struct {
	status  int
	detail  string
	invalid []invalid
	retry   int // seconds of Retry-After; 0 is none
	// Extra fields, for clients that tell apart what one status means.
	gone    bool   // the sandbox is not there, or not any more
	reason  string // why it ended
	refused bool   // this sandbox can never start
	again   bool   // it ended through no fault of its own: another may do better
}

// invalid is one field of a request that is not as it must be.
type invalid struct {
	Loc  []any  `json:"loc"` // "body" or "query", then the field
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

func (f *failure) Error() string {
	if len(f.invalid) > 0 {
		return fmt.Sprintf("%v: %s", f.invalid[0].Loc, f.invalid[0].Msg)
	}
	return f.detail
}

// MarshalJSON is the body.
func (f *failure) MarshalJSON() ([]byte, error) {
	b := struct {
		Detail    any    `json:"detail"`
		Gone      bool   `json:"gone,omitempty"`
		Reason    string `json:"reason,omitempty"`
		Refused   bool   `json:"refused,omitempty"`
		Retryable bool   `json:"retryable,omitempty"`
	}{f.detail, f.gone, f.reason, f.refused, f.again}
	if len(f.invalid) > 0 {
		b.Detail = f.invalid
	}
	return seal.JSON(b)
}

func fail(status int, format string, a ...any) *failure {
	return &failure{status: status, detail: fmt.Sprintf(format, a...)}
}

// away is a 503: the caller may try again after retry seconds.
func away(retry int, format string, a ...any) *failure {
	f := fail(http.StatusServiceUnavailable, format, a...)
	f.retry = retry
	return f
}

func invalidField(where, field, kind, format string, a ...any) *failure {
	return &failure{status: http.StatusUnprocessableEntity, invalid: []invalid{{
		Loc: []any{where, field}, Msg: fmt.Sprintf(format, a...), Type: kind,
	}}}
}

func unknownSandbox(id string) *failure {
	f := fail(http.StatusNotFound, "Sandbox %s not found", id)
	f.gone = true
	return f
}

func unknownJob(id string) *failure { return fail(http.StatusNotFound, "Job %s not found", id) }

// gone says that the sandbox has ended. One that its user deleted looks as if it had
// never been, as in the original; any other says why.
func gone(st State) *failure {
	f := unknownSandbox(st.Spec.ID)
	f.reason, f.again = st.Reason, Retryable(st.Reason)
	if st.Reason != ReasonDeleted {
		f.detail = fmt.Sprintf("Sandbox %s is gone: %s", st.Spec.ID, endText(st))
	}
	return f
}

// endText is why a sandbox ended, for people.
func endText(st State) string {
	switch {
	case st.Message == "" || st.Message == st.Reason:
		return st.Reason
	case st.Reason == "":
		return st.Message
	}
	return st.Reason + ": " + st.Message
}

// fromAgent is an agent's refusal as an answer; what names the file or job for the
// "not found" texts that the original has.
func fromAgent(err error, what string) error {
	var refusal *agentError
	if !errors.As(err, &refusal) {
		return err
	}
	status := refusal.status
	switch refusal.wire.Code {
	case wire.CodeNotFound:
		return fail(http.StatusNotFound, "%s", what)
	case wire.CodeUnsigned:
		status = http.StatusBadGateway
	}
	return fail(status, "%s", refusal.wire.Detail)
}

// writeFailure answers with err, which is a bug when it is no failure.
// told reports whether err says by itself what the client is to know. What does not is
// trouble of the runtime, which may pass.
func told(err error) bool {
	var f *failure
	var refused *sandbox.Refused
	return errors.As(err, &f) || errors.As(err, &refused)
}

func writeFailure(w http.ResponseWriter, requestID string, err error) {
	var f *failure
	var refused *sandbox.Refused
	if errors.As(err, &refused) {
		f = fail(http.StatusUnprocessableEntity, "%s", refused.Reason)
		f.refused = true
	} else if !errors.As(err, &f) {
		writeJSON(w, http.StatusInternalServerError, struct {
			Error     string `json:"error"`
			Detail    string `json:"detail"`
			RequestID string `json:"request_id"`
		}{"Internal server error", err.Error(), requestID})
		return
	}
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retry))
	}
	writeJSON(w, f.status, f)
}

var _ json.Marshaler = (*failure)(nil)
