package wire

import (
	"encoding/json"
	"fmt"
)

// A terminal is spoken over one WebSocket (GET /v1/terminal) in text messages, each a JSON object.
//
// The first message of a client is init, which starts a program on a new terminal, or
// attach, which takes over a terminal that lives. Then it sends stdin, resize, signal and
// close (the same as signal TERM); what it sends beyond that is ignored. The agent answers
// ready, then stdout, and at the end exit; error instead says what is wrong. Pings go to
// the client every PingSeconds, because some clients give up on a silent connection.
const (
	FrameInit   = "init"
	FrameAttach = "attach"
	FrameStdin  = "stdin"
	FrameResize = "resize"
	FrameSignal = "signal"
	FrameClose  = "close"
	FrameReady  = "ready"
	FrameStdout = "stdout"
	FrameExit   = "exit"
	FrameError  = "error"
)

// PingSeconds is less than half of what the original's client takes for a dead connection.
const PingSeconds = 4

// MaxFrame is the largest message of a client, in bytes; MaxStdout the most raw bytes in
// one message to it.
const (
	MaxFrame  = 4 << 20
	MaxStdout = 64 << 10
)

// The codes a terminal's WebSocket is closed with, beside 1000 after an exit.
const (
	CloseBadInit = 4400
	CloseTaken   = 4409 // another client has attached
	CloseSpawn   = 4500
)

// ClientFrame is a message of a client.
type ClientFrame struct {
	Type string `json:"type"`

	// Of init. Cmd is executed directly, or with LoginShell by a login shell that reads
	// ~/.bashrc. Keep is for how many seconds the program lives on without a client; 0 is
	// not at all.
	Cmd        []string          `json:"cmd"`
	Env        map[string]string `json:"env"`
	Cwd        string            `json:"cwd"`
	LoginShell bool              `json:"login_shell"`
	Keep       float64           `json:"keep"`

	// Of init, resize and, where it may stay as it is, attach.
	Rows int `json:"rows"`
	Cols int `json:"cols"`

	// Of attach: which terminal, and how many bytes of its output the client has.
	Session string `json:"session"`
	Offset  int64  `json:"offset"`

	Data []byte `json:"data"` // of stdin
	Sig  string `json:"sig"`  // of signal
}

// ParseClientFrame reads a message; one that is no JSON object of a type is an error.
func ParseClientFrame(text []byte) (ClientFrame, error) {
	var f ClientFrame
	if err := json.Unmarshal(text, &f); err != nil {
		return ClientFrame{}, fmt.Errorf("not a frame: %w", err)
	}
	if f.Type == "" {
		return ClientFrame{}, fmt.Errorf("not a frame: no type")
	}
	return f, nil
}

// Ready says that a program runs. Offset is where its output begins for this client:
// later than asked for when so much was not kept.
type Ready struct {
	Type    string `json:"type"`
	PID     int    `json:"pid"` // 0: it could not be started, and exits with 127 or 126
	Session string `json:"session"`
	Offset  int64  `json:"offset"`
}

// Stdout is what the terminal printed; Offset counts from its start.
type Stdout struct {
	Type   string `json:"type"`
	Data   []byte `json:"data"`
	Offset int64  `json:"offset"`
}

// Exit is the end of the program: N of exit(N), -N for signal N.
type Exit struct {
	Type string `json:"type"`
	Code int    `json:"code"`
}

// Fault is why there is no terminal, or not for this client any more.
type Fault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}
