package envctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// The exit codes of envctl's own errors, as docker and the shell have them. Everything
// else is the remote command's.
const (
	codeFault    = 125 // of envctl, the service or the network; nobody knows what a command did
	codeRefused  = 126 // the key, the quota or the request is refused
	codeNotFound = 127 // no such sandbox or job
	codeStopped  = 130 // Ctrl-C, or SIGTERM
)

// codes is the EXIT STATUS block of the help.
const codes = `EXIT STATUS
   N     exec, run, shell: the remote command's own exit code, 0 to 255
   128+N the remote command was ended by signal N
   124   the remote command ran into --timeout
   125   envctl, the service or the network is at fault; after a command began: nobody knows what it did
   126   refused: the API key, a quota or the request itself; also a remote command that cannot be invoked
   127   no such sandbox or job; also a remote command that is not there
   130   stopped by Ctrl-C or SIGTERM
A message that begins with "envctl:" is envctl's, and -o json tells both apart for sure.`

// status is a remote command's exit code, which needs no words.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// remote is the exit code of a command's result.
func remote(exitCode int) error {
	switch {
	case exitCode == 0:
		return nil
	case exitCode < 0:
		return status(128 - exitCode)
	}
	return status(exitCode)
}

// unknown is an error that came after a command had begun, so that it must not look like
// one that came before.
type unknown struct{ error }

func (e unknown) Unwrap() error { return e.error }

// notStarted is why a sandbox that was to be made did not come to be.
type notStarted struct{ error }

func (e notStarted) Unwrap() error { return e.error }

// kind is the name of an error in JSON, with its exit code.
func kind(err error) (string, int) {
	var (
		remote   status
		late     unknown
		failed   notStarted
		notFound *client.NotFound
		gone     *client.Gone
		refused  *client.Refused
		denied   *client.Denied
		quota    *client.QuotaExceeded
		conflict *client.Conflict
		notReady *client.NotReady
		away     *client.Unavailable
	)
	switch {
	case errors.As(err, &remote):
		return "exit", int(remote)
	case errors.Is(err, context.Canceled):
		return "stopped", codeStopped
	case errors.As(err, &late):
		return "unknown", codeFault
	case errors.As(err, &failed) && errors.As(err, &gone):
		return "not_started", codeFault
	case errors.As(err, &notFound):
		return "not_found", codeNotFound
	case errors.As(err, &gone):
		return "gone", codeNotFound
	case errors.As(err, &refused):
		return "refused", codeRefused
	case errors.As(err, &denied):
		return "denied", codeRefused
	case errors.As(err, &quota):
		return "quota_exceeded", codeRefused
	case errors.As(err, &conflict):
		return "conflict", codeFault
	case errors.As(err, &notReady):
		return "not_ready", codeFault
	case errors.As(err, &away):
		return "unavailable", codeFault
	case exit.Code(err) == exit.Config:
		return "usage", codeFault
	}
	return "error", codeFault
}

// report writes err for people or, as JSON, for programs, and returns the exit code.
func report(w io.Writer, err error, asJSON bool) int {
	name, code := kind(err)
	switch {
	case err == nil:
		return 0
	case name == "exit":
		return code
	case name == "stopped" && !asJSON:
		fmt.Fprintln(w, "envctl: stopped")
		return code
	case !asJSON:
		fmt.Fprintln(w, "envctl:", err)
		return code
	}
	var gone *client.Gone
	body := map[string]any{"kind": name, "message": err.Error(), "exit_code": code}
	if errors.As(err, &gone) {
		body["reason"], body["retryable"] = gone.Reason, gone.Retryable
	}
	raw, fault := json.Marshal(map[string]any{"error": body})
	if fault != nil { // strings and numbers
		fmt.Fprintln(w, "envctl:", err)
		return code
	}
	fmt.Fprintf(w, "%s\n", raw)
	return code
}
