// Package sandbox is what an isolated machine means to the code that uses one: make
// it, run commands, move files, end it. It knows nothing of HTTP, Kubernetes or
// namespaces; httpclient talks to a service, control is that service.
//
// The contract that everything above relies on: "the command failed" is a Result,
// "we do not know what the command did" is an error. An error of Exec never means
// that the command did not run.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Spec is the sandbox to make. The zero value of a field means the service's default.
type Spec struct {
	ID           string            // RFC 1123 label; "" lets the service choose
	Image        string            // required: "host", or an OCI image reference or archive
	CPU, Memory  string            // limits, Kubernetes quantities: "500m", "2Gi"
	Reserve      Reserve           // what a scheduler keeps free for it, by default the limits
	Disk         string            // limit of what it writes outside of volumes: "10Gi"
	Placement    Placement         // which machines may run it
	Owner        string            // whose it is: the name of an API key; the service sets it
	Env          map[string]string // of every command
	Workdir      string            // default working folder; made when absent
	OpenNetwork  bool              // false: no network but loopback, and what Egress opens
	Egress       []EgressRule      // not nil: programs are told of the egress proxy, even when nothing is open yet
	ReadyTimeout time.Duration     // how long Create may wait until commands run
	Lifetime     time.Duration     // the service ends it after this, whatever happens
	Lease        time.Duration     // ends without a heartbeat for so long; 0 is none
	Labels       map[string]string // seen by list and in metrics
}

// Reserve is what a scheduler keeps free, when that is less than the limit. "" is the limit.
type Reserve struct {
	CPU, Memory string // Kubernetes quantities
}

// Placement is which machines of a cluster may run a sandbox. A runtime without a
// scheduler refuses all but the zero value.
type Placement struct {
	GPU           int               // how many
	NodeSelector  map[string]string // labels that the node must have
	Tolerations   []Toleration      // taints that do not keep it away
	RuntimeClass  string            // "gvisor", "kata"
	PriorityClass string
	PullSecrets   []string // names of Secrets beside the sandboxes
	Spot          bool     // may run on machines that are taken away at short notice
}

// Toleration is Kubernetes': Operator is "Equal" or "Exists", Effect "" is every effect.
type Toleration struct {
	Key, Operator, Value, Effect string
}

// Command is one exec. Exactly one of Shell and Argv is set.
type Command struct {
	Shell          string
	Argv           []string
	Cwd            string
	Env            map[string]string
	Stdin          []byte
	Timeout        time.Duration // from the start of the command; required
	Merge          bool          // stderr into stdout, in the order written
	Concurrent     bool          // do not queue behind other commands
	IdempotencyKey string        // a repeat with the same key is the same command
}

// Result is a command that ran and ended.
type Result struct {
	ExitCode    int // N of exit(N), -N for signal N, 124 with TimedOut
	TimedOut    bool
	Stdout      []byte // raw bytes up to the cap, head and tail beyond it
	Stderr      []byte
	StdoutBytes int64 // printed in all
	StderrBytes int64
	Truncated   bool
	Duration    time.Duration
}

// File is an entry of a folder.
type File struct {
	Name     string
	Dir      bool
	Size     int64
	Modified time.Time
}

// Client makes sandboxes. Safe for concurrent use.
type Client interface {
	// Create returns when commands run, or with an error: *Refused when this spec will
	// never start, anything else when another try may.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
}

// Sandbox is one isolated machine. Safe for concurrent use; commands queue first in,
// first out unless Concurrent.
type Sandbox interface {
	ID() string
	Exec(ctx context.Context, c Command) (Result, error)
	// Put writes size bytes of r to path with mode, parents made, whole or not at all.
	Put(ctx context.Context, path string, r io.Reader, size int64, mode uint32) error
	// Get opens a file; fs.ErrNotExist when there is none.
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	List(ctx context.Context, path string) ([]File, error)
	// Close ends the sandbox and everything in it. Calling it twice is fine.
	Close(ctx context.Context) error
}

// Refused says that a sandbox of this spec will never start: a bad image name, more
// memory than any node has, a malformed field.
type Refused struct {
	Image, Reason string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("sandbox of image %q refused: %s", e.Image, e.Reason)
}

// Lost says that a sandbox ended under its user: out of memory, evicted, deadline,
// deleted. What ran in it at the time is unknown.
type Lost struct {
	ID, Reason string
}

func (e *Lost) Error() string { return fmt.Sprintf("sandbox %s is gone: %s", e.ID, e.Reason) }

// IsLost reports whether err says that the sandbox is gone for good.
func IsLost(err error) bool {
	var l *Lost
	return errors.As(err, &l)
}

// OutOfMemory is in the Reason of a sandbox that used more memory than its spec has; the
// word is Kubernetes'.
const OutOfMemory = "OOMKilled"

// IsOutOfMemory reports whether err says that a sandbox ended for its own use of memory.
// Unlike other losses, what ran in it is the likely cause.
func IsOutOfMemory(err error) bool {
	var l *Lost
	return errors.As(err, &l) && strings.Contains(l.Reason, OutOfMemory)
}
