package wire

// StreamEvent is one line of a job's stream, JSON. The first holds the job; then come the
// bytes of both outputs, each in its order and without gaps but for what says so; the last
// holds the job again, which has then ended. An empty one says that the agent is there.
type StreamEvent struct {
	Job *Job `json:"job,omitempty"` // without output
	// Stream is "stdout" or "stderr", Offset where Data begins in it. Dropped bytes right
	// before Offset were printed and not kept; Data may be empty then.
	Stream  string `json:"stream,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
	Dropped int64  `json:"dropped,omitempty"`
	Data    []byte `json:"data,omitempty"`
}

// Input is how much of a job's standard input was taken, in bytes after ExecRequest.Stdin.
type Input struct {
	Bytes  int64 `json:"bytes"`
	Closed bool  `json:"closed"`
}

// Signal is a request to signal a job's own process group.
type Signal struct {
	Sig string `json:"sig"` // without SIG: TERM, KILL, INT, HUP, QUIT, USR1, USR2, STOP, CONT, WINCH
}
