package client

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Time is a time as the service writes it: seconds since 1970, as a fraction.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler; null is the zero time.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil {
		return fmt.Errorf("time %s: %w", raw, err)
	}
	if t.Time = (time.Time{}); seconds != nil {
		t.Time = time.UnixMicro(int64(math.Round(*seconds * 1e6)))
	}
	return nil
}

// MarshalJSON implements json.Marshaler: as the service writes it.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(t.UnixMicro()) / 1e6)
}

// Status is how far a sandbox is.
type Status string

// The statuses of a sandbox.
const (
	Pending Status = "pending" // accepted; commands do not run yet
	Ready   Status = "ready"   // commands run
	Failed  Status = "failed"  // ended: see Reason
)

// Info is a sandbox as the service tells it. Times are zero when not yet.
type Info struct {
	ID            string            `json:"sandbox_id"`
	Image         string            `json:"image"`
	Status        Status            `json:"status"`
	Message       string            `json:"status_message"` // what it waits for, or why it ended
	Reason        string            `json:"reason,omitempty"`
	Retryable     bool              `json:"retryable,omitempty"` // of one that failed: another may do better
	Owner         string            `json:"owner,omitempty"`     // the name of the API key that made it
	Labels        map[string]string `json:"labels,omitempty"`
	CPU           string            `json:"cpu"`
	Memory        string            `json:"memory"`
	CPURequest    string            `json:"cpu_request,omitempty"`
	MemoryRequest string            `json:"memory_request,omitempty"`
	Disk          string            `json:"disk,omitempty"`
	GPU           int               `json:"gpu,omitempty"`
	Limits        string            `json:"limits,omitempty"` // "full", or "partial": of single processes only
	BlockNetwork  bool              `json:"block_network"`
	Workdir       string            `json:"workdir,omitempty"`
	Spot          bool              `json:"spot,omitempty"`    // it may run on machines that are taken away
	OnSpot        bool              `json:"on_spot,omitempty"` // it does
	Host          string            `json:"host,omitempty"`    // the machine or Pod
	Created       Time              `json:"created_at"`
	ReadyAt       Time              `json:"ready_at"`
	Ended         Time              `json:"ended_at"`
	Expires       Time              `json:"expires_at"`
	Lease         float64           `json:"lease_seconds,omitempty"`
	Lifetime      float64           `json:"lifetime_seconds,omitempty"`
	Cost          *Cost             `json:"cost,omitempty"` // of Info only, not of List
}

// Cost is what sandboxes held, for how long, and what that cost.
type Cost struct {
	CPUSeconds        float64 `json:"cpu_seconds"`
	MemoryByteSeconds float64 `json:"memory_byte_seconds"`
	GPUSeconds        float64 `json:"gpu_seconds"`
	AmountMicros      *int64  `json:"amount_micros"` // millionths of Currency; nil is not known
	Currency          string  `json:"currency"`      // "" when the service knows no prices
}
