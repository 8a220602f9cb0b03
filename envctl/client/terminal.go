package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"orchard/internal/sandbox/httpclient/rest"
)

// TerminalSpec is a program to run on a terminal of its own.
type TerminalSpec struct {
	Argv  []string // run without a shell; one that is not there exits with 127
	Env   map[string]string
	Cwd   string
	Login bool // through a login shell
	Rows  int  // 0 is 24
	Cols  int  // 0 is 80
	// Keep is how long the program lives on without a connection. When it is not 0 a
	// connection that breaks is made anew, and nothing of the output is lost.
	Keep time.Duration
}

// Terminal is a program on a terminal: Read its output, Write what is typed. One goroutine
// may read while others write.
type Terminal struct {
	sandbox *Sandbox
	keep    time.Duration
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended

	out  *io.PipeReader
	into *io.PipeWriter

	writing sync.Mutex // one message at a time; held before mu, never with it
	mu      sync.Mutex
	conn    *websocket.Conn // nil while there is none
	back    chan struct{}   // closed when conn is there again
	session string
	offset  int64
	code    int
	err     error // of run
}

// frame is a message of either side.
type frame struct {
	Type    string            `json:"type"`
	Cmd     []string          `json:"cmd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Login   bool              `json:"login_shell,omitempty"`
	Keep    float64           `json:"keep,omitempty"`
	Rows    int               `json:"rows,omitempty"`
	Cols    int               `json:"cols,omitempty"`
	Session string            `json:"session,omitempty"`
	Offset  int64             `json:"offset,omitempty"`
	Data    []byte            `json:"data,omitempty"`
	Sig     string            `json:"sig,omitempty"`
	Code    int               `json:"code,omitempty"`
	Message string            `json:"message,omitempty"`
}

// silence is how long a connection without a sign of life is thought to live; the
// service pings every few seconds.
const silence = 20 * time.Second

// writeTime is how long an answer to a ping may take to be handed to the network. What is
// typed has no limit: a program may leave it unread, and a dead connection ends the reading.
const writeTime = 10 * time.Second

// largestWrite keeps a message of what is typed under the service's limit.
const largestWrite = 64 << 10

// Terminal starts a program on a terminal. It ends when ctx does.
func (s *Sandbox) Terminal(ctx context.Context, spec TerminalSpec) (*Terminal, error) {
	t := &Terminal{sandbox: s, keep: spec.Keep, done: make(chan struct{}), back: make(chan struct{})}
	t.out, t.into = io.Pipe()
	rows, cols := spec.Rows, spec.Cols
	if rows <= 0 || cols <= 0 {
		rows, cols = 24, 80
	}
	first := frame{Type: "init", Cmd: spec.Argv, Env: spec.Env, Cwd: spec.Cwd, Login: spec.Login, Keep: spec.Keep.Seconds(), Rows: rows, Cols: cols}
	if err := t.open(ctx, first); err != nil {
		return nil, explain("terminal in sandbox "+s.id, err)
	}
	ctx, t.cancel = context.WithCancel(ctx)
	go t.run(ctx)
	return t, nil
}

// open makes a connection and waits until the terminal is ready.
func (t *Terminal) open(ctx context.Context, first frame) error {
	conn, err := t.sandbox.client.rest.Dial(ctx, t.sandbox.path("/exec/pty"))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	alive := func() { _ = conn.SetReadDeadline(time.Now().Add(silence)) } // a dead one shows in the next read
	conn.SetPingHandler(func(data string) error {
		alive()
		err := conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTime))
		var timeout interface{ Timeout() bool }
		if errors.Is(err, websocket.ErrCloseSent) || errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		return err
	})
	alive()
	err = write(conn, first)
	for err == nil {
		var f frame
		if err = conn.ReadJSON(&f); err != nil {
			break
		}
		alive()
		switch f.Type {
		case "ready":
			t.mu.Lock()
			defer t.mu.Unlock()
			t.conn, t.session, t.offset = conn, f.Session, f.Offset
			close(t.back)
			return nil
		case "error":
			err = &Failure{Detail: f.Message}
		}
	}
	conn.Close()
	return err
}

func write(conn *websocket.Conn, f frame) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return conn.WriteMessage(websocket.TextMessage, raw)
}

// run hands the output on, over one connection after the other, until the program ends.
func (t *Terminal) run(ctx context.Context) {
	defer close(t.done)
	over, err := false, error(nil)
	for !over {
		over, err = t.listen(ctx)
		if over || ctx.Err() != nil || t.keep == 0 || t.session == "" {
			break
		}
		err = t.sandbox.client.rest.Persist(ctx, func() error {
			t.mu.Lock()
			again := frame{Type: "attach", Session: t.session, Offset: t.offset}
			t.mu.Unlock()
			return t.open(ctx, again)
		})
		if err != nil {
			break
		}
	}
	if ctx.Err() != nil && !over {
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	t.err = err
	t.mu.Unlock()
	t.cancel()
	if err == nil {
		err = io.EOF
	}
	t.into.CloseWithError(err)
}

// listen reads from the connection until it breaks, or the program has ended.
func (t *Terminal) listen(ctx context.Context) (over bool, err error) {
	conn := t.conn // only open, called from run, sets it
	stop := context.AfterFunc(ctx, func() { rest.Bye(conn) })
	defer func() {
		stop()
		conn.Close()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conn, t.back = nil, make(chan struct{})
	}()
	for {
		var f frame
		if err := conn.ReadJSON(&f); err != nil {
			return false, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(silence)) // a dead one shows in the next read
		switch f.Type {
		case "stdout":
			if _, err := t.into.Write(f.Data); err != nil {
				return true, err // nobody reads any more
			}
			t.mu.Lock()
			t.offset += int64(len(f.Data))
			t.mu.Unlock()
		case "exit":
			t.mu.Lock()
			t.code = f.Code
			t.mu.Unlock()
			return true, nil
		case "error":
			return true, &Failure{Detail: f.Message}
		}
	}
}

// send writes a message, over the next connection when there is none now. One that breaks
// as it is written may have taken the message along or not; it is not written twice.
func (t *Terminal) send(f frame) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	for {
		t.mu.Lock()
		conn, back := t.conn, t.back
		t.mu.Unlock()
		if conn != nil {
			return write(conn, f)
		}
		select {
		case <-back:
		case <-t.done:
			return io.ErrClosedPipe
		}
	}
}

// Read implements io.Reader: the output, stdout and stderr in one, as a terminal has it.
// io.EOF is the end of the program.
func (t *Terminal) Read(p []byte) (int, error) { return t.out.Read(p) }

// Write implements io.Writer: what is typed. io.ErrClosedPipe after the program's end.
func (t *Terminal) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), largestWrite)]
		if err := t.send(frame{Type: "stdin", Data: part}); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// Resize tells the program how large its terminal is now.
func (t *Terminal) Resize(rows, cols int) error {
	return t.send(frame{Type: "resize", Rows: rows, Cols: cols})
}

// Signal sends "INT", "TERM", "KILL", "HUP" or "QUIT" to the program's process group.
func (t *Terminal) Signal(name string) error { return t.send(frame{Type: "signal", Sig: name}) }

// Wait is the program's exit code, -N for signal N, once it has ended and its output was
// read. An error means that nobody here knows how it ended.
func (t *Terminal) Wait() (int, error) {
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, fmt.Errorf("terminal in sandbox %s: %w", t.sandbox.id, typed(t.err))
	}
	return t.code, nil
}

// Close ends the connection, and with it the program unless it is kept.
func (t *Terminal) Close() error {
	t.cancel()
	t.out.CloseWithError(io.ErrClosedPipe)
	<-t.done
	return nil
}

var _ io.ReadWriteCloser = (*Terminal)(nil)
