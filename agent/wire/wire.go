// Package wire is what a controller and the agent inside a sandbox say to each
// other: HTTP with JSON bodies, and raw bytes for files and output.
//
// In a Pod all of it goes over TLS, by which the agent proves who it is (identity.go).
//
//	GET    /v1/health                 Health (unsigned; says nothing a neighbour could use)
//	POST   /v1/jobs?wait=SECONDS      ExecRequest -> Job; the id is the caller's, the same id never runs twice
//	GET    /v1/jobs                   []Job without output, oldest first
//	GET    /v1/jobs/{id}?wait=SECONDS Job; with wait, answers when it ended or the time is over
//	POST   /v1/jobs/{id}/kill         ends it, the children too, -> Job; of an ended one, what it left behind
//	PUT    /v1/jobs/{id}/delivered    open while its answer is handed to the client: answered at once, and when the body ends
//	                                  well, later equal bodies are new commands; until it ends they wait
//	GET    /v1/jobs/{id}/output?stream=stdout|stderr&offset=N   raw bytes, also while it runs; X-Output-Offset
//	                                  is where they begin (later than N when N was not kept), X-Output-Bytes
//	                                  how many were printed so far
//	GET    /v1/jobs/{id}/stream?stdout=N&stderr=M  StreamEvents, a line each: what it has printed from those offsets
//	                                  on and goes on printing, to its end
//	PUT    /v1/jobs/{id}/stdin?offset=N&close=1    raw bytes for a job with StdinOpen -> Input; what lies before
//	                                  the offset that was taken already is skipped
//	POST   /v1/jobs/{id}/signal       Signal -> 204
//	GET    /v1/terminal               a WebSocket with a program on a terminal, see terminal.go
//	PUT    /v1/tar?path=P&links=any   tar or gzipped tar -> TarReport; unpacked beneath the folder P; links that
//	                                  lead out of it only with links=any
//	GET    /v1/tar?path=P&gzip=1      a folder's content, or a file, as tar; see tar.go
//	POST   /v1/ports                  Port -> Port with its token
//	GET    /v1/ports                  []Port
//	DELETE /v1/ports/{id}             ends a grant and cuts its connections -> 204
//	GET    /v1/tunnel?token=T         Upgrade to a connection with the token's port
//	GET    /v1/files?path=P           raw bytes, Range honoured; X-File-Mode, X-File-Mtime
//	PUT    /v1/files?path=P&mode=0644 raw body -> File; parents made, written beside and renamed
//	GET    /v1/files/list?path=P      Listing
//	POST   /v1/lease                  Lease -> Lease; when it runs out the agent ends the sandbox; 0 is never
//	POST   /v1/claim                  Claim -> 204, once: makes an idle sandbox somebody's; the same again changes
//	                                  nothing, another is refused
//	POST   /v1/shutdown               ends the sandbox -> 204
//
// Every request but health is signed with the controllers' private key for one
// sandbox UID; the agent holds only the public key (see sign.go). Errors are
// {"code": CODE, "detail": TEXT} with an HTTP status; CODE is one of the Code
// constants, TEXT names the path or field and the errno. What follows an Upgrade is
// bound to the connection, as a streamed body is, and not signed message by message.
package wire

// Version is the protocol's version, sent in Health. An agent refuses nothing by
// version; a controller that needs more than an older agent has says so by name.
// 1: jobs, files, lease and shutdown. 2: also streams, stdin, signals, terminals, tar and ports.
const Version = 2

// Error codes of an agent's answer.
const (
	CodeBadRequest = "bad_request" // 400: the detail names the field
	CodeUnsigned   = "unsigned"    // 401: no, stale, replayed or wrong signature, or another sandbox's
	CodeNotFound   = "not_found"   // 404: no such job, or ENOENT
	CodeConflict   = "conflict"    // 409: this job id runs another command
	CodeNotFile    = "not_file"    // 400: a directory or device where a file is wanted
	CodeDenied     = "denied"      // 403: EACCES, EPERM, EROFS
	CodeNoSpace    = "no_space"    // 507: ENOSPC, EDQUOT
	CodeStalled    = "stalled"     // 408: nobody reads the job's stdin; the detail says how much was taken
	CodeBadToken   = "bad_token"   // 404: no grant of a port has this token
	CodeGone       = "gone"        // 410: the grant has expired or was revoked
	CodeRefused    = "refused"     // 409: nothing listens on the port
	CodeInternal   = "internal"    // 500
	// CodeNetworkOpen is 503, health included: the sandbox's network is to be closed and is not yet.
	CodeNetworkOpen = "network_open"
)

// Error is the body of a failed request.
type Error struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Health says that the agent serves, and for which sandbox.
type Health struct {
	Status   string `json:"status"` // "ok"
	PID      int    `json:"pid"`
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the build
}

// ExecRequest is one command. Exactly one of Shell and Argv is set.
type ExecRequest struct {
	// ID is the job's id, made by the caller: [A-Za-z0-9._-]{1,128}.
	ID string `json:"id"`
	// Shell runs through the first of bash and sh that the image has, whatever its length.
	Shell string `json:"shell,omitempty"`
	// Argv is executed directly; no shell is needed.
	Argv []string `json:"argv,omitempty"`
	// Login runs Shell in a login, interactive bash that reads ~/.bashrc, as the
	// original service does; without bash, sh -l.
	Login bool `json:"login,omitempty"`
	// Cwd is the working folder; "" and a folder that is not there mean the
	// sandbox's default, then "/".
	Cwd string `json:"cwd,omitempty"`
	// Env is laid over the agent's own environment.
	Env map[string]string `json:"env,omitempty"`
	// Stdin is given to the command; empty means /dev/null.
	Stdin []byte `json:"stdin,omitempty"`
	// StdinOpen keeps standard input open after Stdin, for the stdin route.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// TimeoutMS is counted from the start of the command, not from the queueing. It must be positive.
	TimeoutMS int64 `json:"timeout_ms"`
	// IdleTimeoutMS ends a command that prints nothing for so long; 0 is never.
	IdleTimeoutMS int64 `json:"idle_timeout_ms,omitempty"`
	// Concurrent leaves the queue: the command starts at once.
	Concurrent bool `json:"concurrent,omitempty"`
	// OutputCap is how many bytes of each stream come back in Job; 0 is DefaultOutputCap.
	// Beyond it the head and the tail come, the rest is counted and lies in the stream's file.
	OutputCap int64 `json:"output_cap,omitempty"`
	// Merge sends stderr into stdout, in the order written.
	Merge bool `json:"merge,omitempty"`
	// DedupKey and IdempotencyKey name earlier requests that this one may be a repeat of:
	// the same IdempotencyKey always attaches to its first job (409 when the command
	// differs); the same DedupKey attaches only while the first job's answer is
	// undelivered, for DedupWindow. Both are opaque to the agent.
	DedupKey       string `json:"dedup_key,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// DefaultOutputCap lets 10 MiB of a stream through whole.
const DefaultOutputCap = 16 << 20

// DedupWindowSeconds is how long an undelivered job attaches equal requests.
const DedupWindowSeconds = 60

// The states of a job.
const (
	Queued  = "queued"
	Running = "running"
	Done    = "done" // it ended by itself, by a timeout or by a kill: see ExitCode and Reason
	Failed  = "failed"
)

// Why a job ended otherwise than by itself.
const (
	ReasonTimeout     = "timeout"      // TimeoutMS was over; ExitCode is 124
	ReasonIdleTimeout = "idle_timeout" // IdleTimeoutMS was over; ExitCode is 124
	ReasonKilled      = "killed"       // the kill route; ExitCode is -9
	ReasonEnded       = "ended"        // the agent ends, and the sandbox with it; ExitCode is -9
	ReasonSpawn       = "spawn"        // it never started: ExitCode 127 not found, 126 not executable
)

// Job is a command and how far it is. Times are Unix microseconds, 0 when not yet.
type Job struct {
	ID         string `json:"id"`
	Command    string `json:"command"` // Shell, or Argv joined by spaces
	State      string `json:"state"`
	CreatedUS  int64  `json:"created_us"`
	StartedUS  int64  `json:"started_us,omitempty"`
	EndedUS    int64  `json:"ended_us,omitempty"`
	ExitCode   *int   `json:"exit_code,omitempty"` // N of exit(N); -N for signal N; 124 only for our timeouts
	Reason     string `json:"reason,omitempty"`
	Error      string `json:"error,omitempty"` // a sentence for people
	Stdout     Output `json:"stdout"`
	Stderr     Output `json:"stderr"`
	Attached   bool   `json:"attached,omitempty"`    // this answer is an earlier request's job
	AckPending bool   `json:"ack_pending,omitempty"` // the caller should tell of the delivery

	SandboxReason string `json:"-"` // why its sandbox ended: the service's, no agent knows
}

// Output is what a command printed on one stream.
type Output struct {
	// Data is the whole, or the head, then a line that counts what is left out, then the
	// tail. It comes when the job has ended, and never in a list.
	Data []byte `json:"data,omitempty"`
	// Bytes is how much was printed in all.
	Bytes int64 `json:"bytes"`
	// Truncated says that Data is not the whole.
	Truncated bool `json:"truncated,omitempty"`
	// File is where the whole lies in the sandbox when Truncated; "" when it could not be kept.
	File string `json:"file,omitempty"`
}

// File is one entry of a folder, or a file just written. ModifiedUS is Unix microseconds.
type File struct {
	Name       string `json:"name"` // raw bytes that are not UTF-8 come as U+FFFD
	Type       string `json:"type"` // "file", "directory", "symlink" (dangling), "other"
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode"`
	ModifiedUS int64  `json:"modified_us"`
	Error      string `json:"error,omitempty"` // why the entry could not be read; others are intact
}

// Listing is a folder, sorted by name.
type Listing struct {
	Path  string `json:"path"`
	Files []File `json:"files"`
}

// Lease is how long the sandbox may live without another heartbeat. ExpiresUS is
// Unix microseconds by the agent's clock; 0 is never.
type Lease struct {
	Seconds   float64 `json:"seconds"`
	ExpiresUS int64   `json:"expires_us,omitempty"`
}

// Claim makes a sandbox that was started before anybody asked for it somebody's. What it
// does not say stays as the agent was started with.
type Claim struct {
	Sandbox      string            `json:"sandbox"`                 // its id
	Env          map[string]string `json:"env,omitempty"`           // of every command, over the agent's own
	Cwd          string            `json:"cwd,omitempty"`           // default working folder, made when absent
	LeaseSeconds float64           `json:"lease_seconds,omitempty"` // from now on; 0 is never
}
