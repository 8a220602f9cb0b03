package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/egress"
)

// Runtime makes and ends the machines that sandboxes are. Safe for concurrent use.
// A context that ends stops the call, never the sandbox.
type Runtime interface {
	// Start makes a sandbox of spec, whose ID is set, and returns once it is accepted,
	// which may be long before it is ready. *sandbox.Refused says that this spec can
	// never start. For the ID of a sandbox that has not ended it makes nothing and returns
	// that one's State and ErrExists; of one that has ended it makes a new sandbox, with a
	// new UID. Spec.Lease, when set, is the agent's from its start; heartbeats extend it
	// by POST /v1/lease, which the service sends.
	Start(ctx context.Context, spec sandbox.Spec) (State, error)
	// Get is ErrNotFound for an id that was never started or was forgotten.
	Get(ctx context.Context, id string) (State, error)
	// Wait returns when the sandbox is Ready or Ended; when ctx is over first, the
	// State as it is then and ctx's error.
	Wait(ctx context.Context, id string) (State, error)
	// List is every sandbox known, ended ones too, sorted by id.
	List(ctx context.Context) ([]State, error)
	// Stop ends the sandbox for reason. Nil for one that ended before (the first reason
	// stays), ErrNotFound for an unknown one. An ended sandbox stays known for a while,
	// so that its jobs and its reason can be asked for.
	Stop(ctx context.Context, id, reason string) error
	// Agent is a transport that signs for the sandbox's agent and reaches nothing else,
	// and the base URL to use with it. An error when the sandbox is not Ready.
	Agent(ctx context.Context, id string) (http.RoundTripper, string, error)
}

// Resourcer is a Runtime that can say what its machines have. It is optional:
// GET /resources answers with no nodes without it.
type Resourcer interface {
	Resources(ctx context.Context) (Resources, error)
}

// Eventer is a Runtime that knows more of a sandbox's life than its State tells: what a
// scheduler and a kubelet did. It is optional. Oldest first; those of an ended sandbox as
// long as it is known.
type Eventer interface {
	Events(ctx context.Context, id string) ([]Event, error)
}

// Networker is a Runtime that can open something to a sandbox whose network is closed, at
// the start by Spec.Egress and while it runs. It is optional; without it a spec with
// Egress is refused.
type Networker interface {
	// SetEgress makes rules all that the sandbox may reach, counted from now. It returns
	// when that is decided; a machine may take a second to act on it. ErrNotFound for an
	// unknown sandbox or an ended one.
	SetEgress(ctx context.Context, id string, rules []sandbox.EgressRule) (State, error)
}

// Network is what is open to a sandbox. Rules that are over may still be listed.
type Network struct {
	Generation int64 // of two the higher is the later
	Rules      []egress.Rule
	Proxy      bool // programs in the sandbox were told of the egress proxy
}

// Event is something that happened to a sandbox.
type Event struct {
	At      time.Time
	Type    string // one word: "pulling", "unschedulable", "OOMKilled"
	Message string // for people
	Count   int    // how often, at least 1
}

// The errors of a Runtime that the service branches on.
var (
	ErrNotFound = fmt.Errorf("no such sandbox: %w", fs.ErrNotExist)
	ErrExists   = fmt.Errorf("a sandbox of this id %w", fs.ErrExist)
	ErrNotReady = errors.New("the sandbox is not ready")
)

// Phase is how far a sandbox is. It only moves forward.
type Phase string

// The phases of a sandbox.
const (
	Pending Phase = "pending" // accepted; its agent does not answer yet
	Ready   Phase = "ready"   // its agent answers
	Ended   Phase = "ended"   // gone for good, see State.Reason
)

// The reasons of an end that the service gives or knows. A runtime may have others.
const (
	ReasonDeleted   = "deleted"   // by its user
	ReasonLifetime  = "lifetime"  // Spec.Lifetime was over
	ReasonLease     = "lease"     // no heartbeat for Spec.Lease
	ReasonShutdown  = "shutdown"  // the controller ended
	ReasonNotReady  = "not_ready" // Spec.ReadyTimeout was over before it was ready
	ReasonRefused   = "refused"   // it turned out after Start that this spec can never start
	ReasonOOMKilled = "OOMKilled"
	ReasonImagePull = "image_pull"  // its image cannot be had; the message is the kubelet's
	ReasonStart     = "start_error" // its container cannot be made or started
	ReasonEvicted   = "evicted"     // by the machine, for want of disk or memory
	ReasonPreempted = "preempted"   // its machine was taken away, or its place by a more important one
	ReasonNodeLost  = "node_lost"   // its machine does not answer any more
	ReasonAgent     = "agent_ended" // the agent inside ended by itself
	ReasonReplaced  = "replaced"    // another sandbox has its id, or another container its place
	ReasonLost      = "lost"        // it vanished while nobody watched
)

// Retryable reports whether a sandbox that ended for reason ended through no fault of its
// own, so that another try of the same may do better.
func Retryable(reason string) bool {
	switch reason {
	case ReasonShutdown, ReasonEvicted, ReasonPreempted, ReasonNodeLost, ReasonReplaced, ReasonLost:
		return true
	}
	return false
}

// Limits says how firmly cpu, memory and process limits hold.
const (
	LimitsFull    = "full"    // by cgroups
	LimitsPartial = "partial" // by rlimits of single processes only
)

// State is a sandbox as a runtime knows it. Times are zero when not yet.
type State struct {
	Spec    sandbox.Spec // as given to Start
	UID     string       // of this incarnation: another sandbox of the same ID has another
	Phase   Phase
	Reason  string // why it ended: one word
	Message string // the same for people; while Pending, what it waits for
	Created time.Time
	// Scheduled is when a machine began to hold resources for it; its cost counts from then.
	Scheduled time.Time
	Ready     time.Time
	Ended     time.Time
	// ExpiresAt is when the runtime ends it at the latest; zero is never.
	ExpiresAt time.Time
	Limits    string // LimitsFull or LimitsPartial
	Network   Network
	Pod       string // what it is called there; "" is sandbox- and its id
	Host      string // where it runs: a machine's or Pod's name
	Spot      bool   // it runs on a machine that may be taken away, at that price
}

// Amount is processors and memory.
type Amount struct {
	CPU         float64 `json:"cpu"`
	MemoryBytes int64   `json:"memory_bytes"`
}

// Node is a machine that sandboxes run on.
type Node struct {
	Name        string `json:"name"`
	Capacity    Amount `json:"capacity"`
	Allocatable Amount `json:"allocatable"`
}

// Request is what one sandbox has asked for.
type Request struct {
	Name          string  `json:"name"`
	Namespace     string  `json:"namespace"`
	Phase         string  `json:"phase"`
	CPU           float64 `json:"cpu_request"`
	MemoryRequest int64   `json:"memory_request_bytes"`
}

// Resources is what the nodes have and what live sandboxes hold of it. The service
// adds it up.
type Resources struct {
	Nodes     []Node
	Sandboxes []Request
}
