package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"orchard/agent/wire"
)

// screen is a client of a terminal.
type screen struct {
	t     testing.TB
	conn  *websocket.Conn
	ready wire.Ready
	text  []byte // all printed so far, from ready.Offset on
}

type serverFrame struct {
	wire.Stdout
	PID     int
	Session string
	Code    int
	Message string
}

// terminal connects and sends the first frame.
func (b *box) terminal(first any) *screen {
	b.t.Helper()
	req, err := http.NewRequest("GET", "http://agent/v1/terminal", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := wire.Sign(req, b.key, testUID, time.Now()); err != nil {
		b.t.Fatal(err)
	}
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	}}
	conn, _, err := dialer.Dial("ws://agent/v1/terminal", http.Header{"Authorization": req.Header["Authorization"]})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	s := &screen{t: b.t, conn: conn}
	s.say(first)
	return s
}

// program is terminal with a program that must start.
func (b *box) program(first map[string]any) *screen {
	b.t.Helper()
	if first["type"] == nil {
		first["type"] = "init"
	}
	s := b.terminal(first)
	f := s.next()
	if f.Type != "ready" {
		b.t.Fatalf("got %+v, want ready", f)
	}
	s.ready = wire.Ready{PID: f.PID, Session: f.Session, Offset: f.Offset}
	return s
}

func shell(text string) map[string]any { return map[string]any{"cmd": []string{"sh", "-c", text}} }

func (s *screen) say(frame any) {
	s.t.Helper()
	if err := s.conn.WriteJSON(frame); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) typeIn(text string) {
	s.t.Helper()
	s.say(map[string]any{"type": "stdin", "data": []byte(text)})
}

func (s *screen) next() serverFrame {
	s.t.Helper()
	f, err := s.tryNext()
	if err != nil {
		s.t.Fatalf("after %d bytes: %v", len(s.text), err)
	}
	return f
}

func (s *screen) tryNext() (f serverFrame, err error) {
	s.conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	_, text, err := s.conn.ReadMessage()
	if err != nil {
		return f, err
	}
	err = json.Unmarshal(text, &f)
	if f.Type == "stdout" {
		if want := s.ready.Offset + int64(len(s.text)); f.Offset != want {
			return f, fmt.Errorf("output at %d, want %d", f.Offset, want)
		}
		s.text = append(s.text, f.Data...)
	}
	return f, err
}

// until reads until text was printed.
func (s *screen) until(text string) {
	s.t.Helper()
	for !bytes.Contains(s.text, []byte(text)) {
		if f := s.next(); f.Type != "stdout" {
			s.t.Fatalf("got %+v after %q, want %q", f, s.text, text)
		}
	}
}

// exit reads to the end: an exit frame, and a normal close.
func (s *screen) exit() int {
	s.t.Helper()
	for {
		f := s.next()
		switch f.Type {
		case "stdout":
			continue
		case "exit":
			if _, err := s.tryNext(); !websocket.IsCloseError(err, 1000) {
				s.t.Fatalf("after exit: %v", err)
			}
			return f.Code
		}
		s.t.Fatalf("got %+v", f)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct {
		name  string
		first map[string]any
		code  int
		text  string
	}{
		{"a terminal, session and group of its own", shell(`test -t 0 && test -t 1 && test -t 2 && ps -o sid=,pgid= -p $$ | grep -qx " *$$ *$$" && : </dev/tty && echo yes`), 0, "yes\r\n"},
		{"size", map[string]any{"cmd": []string{"stty", "size"}, "rows": 31, "cols": 97}, 0, "31 97\r\n"},
		{"default size and TERM", shell("stty size; echo $TERM"), 0, "24 80\r\nxterm-256color\r\n"},
		{"environment", map[string]any{"cmd": []string{"sh", "-c", "echo $A $TERM"}, "env": map[string]string{"A": "1 2", "TERM": "vt100"}}, 0, "1 2 vt100\r\n"},
		{"nulls", map[string]any{"cmd": []string{"echo", "x"}, "env": nil, "cwd": nil}, 0, "x\r\n"},
		{"folder", map[string]any{"cmd": []string{"pwd"}, "cwd": "/usr"}, 0, "/usr\r\n"},
		{"no such folder", map[string]any{"cmd": []string{"pwd"}, "cwd": "/nowhere"}, 0, "/\r\n"},
		{"default folder", map[string]any{"cmd": []string{"pwd"}}, 0, b.dir + "\r\n"},
		{"arguments as they are", map[string]any{"cmd": []string{"printf", "<%s>", "a b", "'$x"}}, 0, "<a b><'$x>"},
		{"login shell", map[string]any{"cmd": []string{"sh", "-c", "echo \"$0 $1\" ", "a b", "it's"}, "login_shell": true}, 0, "a b it's\r\n"},
		{"code", shell("exit 42"), 42, ""},
		{"signal", shell("kill -9 $$"), -9, ""},
		{"missing program", map[string]any{"cmd": []string{"no-such-program"}}, 127, "pty_runner: command not found: no-such-program\r\n"},
		{"not a program", map[string]any{"cmd": []string{"/etc/passwd"}}, 126, "pty_runner: /etc/passwd: permission denied (EACCES)\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := b.program(c.first)
			if code := s.exit(); code != c.code || string(s.text) != c.text {
				t.Errorf("got %d %q, want %d %q", code, s.text, c.code, c.text)
			}
		})
	}
}

func TestTerminalRefusals(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct {
		first any
		text  string
		code  int
	}{
		{map[string]any{"type": "init", "cmd": []string{}}, "bad init frame: cmd must begin with a program", 4400},
		{map[string]any{"type": "stdin"}, "bad init frame: ", 4400},
		{"text", "bad init frame: ", 4400},
		{map[string]any{"type": "init", "cmd": []string{"x\x00"}}, "NUL", 4400},
		{map[string]any{"type": "attach", "session": "nope"}, "there is no session", 4400},
	} {
		s := b.terminal(c.first)
		f := s.next()
		if f.Type != "error" || !strings.Contains(f.Message, c.text) {
			t.Errorf("%v: got %+v, want %q", c.first, f, c.text)
		}
		if _, err := s.tryNext(); !websocket.IsCloseError(err, c.code) {
			t.Errorf("%v: got %v, want close %d", c.first, err, c.code)
		}
	}
}

// What a program prints last, right before it ends, comes; also when something in the
// background holds the terminal.
func TestTerminalTail(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for i := range 60 {
		s := b.program(shell("head -c 50000 /dev/zero | tr '\\0' x; printf END"))
		if i%10 == 0 {
			s = b.program(shell("setsid sleep 3.60 & head -c 50000 /dev/zero | tr '\\0' x; printf END"))
		}
		if code := s.exit(); code != 0 || len(s.text) != 50003 || !bytes.HasSuffix(s.text, []byte("xEND")) {
			t.Fatalf("run %d: exit %d, %d bytes", i, code, len(s.text))
		}
	}
}

// A paste larger than any buffer reaches the program, which begins to read late.
func TestTerminalPaste(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(shell("stty raw -echo; echo go; sleep 1; head -c 200000 | sha256sum; cat >/dev/null"))
	s.until("go")
	paste := bytes.Repeat([]byte("0123456789abcdef"), 200000/16)
	s.typeIn(string(paste))
	s.until(sha256Hex(paste))
	s.say(map[string]any{"type": "signal", "sig": "KILL"}) // passes what is not read
	if code := s.exit(); code != -9 {
		t.Errorf("got %d", code)
	}
}

func TestTerminalSignals(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(shell(`trap 'stty size' WINCH; trap 'echo INT' INT; echo go; while :; do sleep 0.01; done`))
	s.until("go")
	s.conn.WriteMessage(websocket.TextMessage, []byte("not json"))
	s.say(map[string]any{"type": "no such type"})
	s.say(map[string]any{"type": "resize", "rows": 50, "cols": 120})
	s.until("50 120\r\n")
	s.say(map[string]any{"type": "signal", "sig": "INT"})
	s.until("INT")
	s.typeIn("\x03") // the terminal itself makes that a signal
	s.until("^C")
	s.say(map[string]any{"type": "close"})
	if code := s.exit(); code != -15 {
		t.Errorf("close: got %d, want -15", code)
	}
}

// The socket takes the program and all that came of it along.
func TestTerminalDiesWithItsSocket(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for i, mark := range []string{"sleep 600.7101", "sleep 600.7102"} {
		s := b.program(shell(fmt.Sprintf("setsid %s & (trap '' HUP TERM; %s) & trap '' HUP; echo go; while :; do %s; done", mark, mark, mark)))
		s.until("go")
		if i == 0 {
			s.conn.Close() // without a word
		} else {
			s.conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
		}
		eventually(t, mark+" is dead", func() bool { return !alive(mark) })
	}
}

func TestTerminalAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(shell("exit 3"))
	for range 20 { // some of it before, some after the end
		if s.conn.WriteJSON(map[string]any{"type": "stdin", "data": []byte("x\n")}) != nil ||
			s.conn.WriteJSON(map[string]any{"type": "signal", "sig": "KILL"}) != nil {
			break
		}
	}
	if code := s.exit(); code != 3 && code != -9 {
		t.Errorf("got %d", code)
	}
}

// Nobody reads: the program waits, the agent does not grow, and all of it is there later.
func TestTerminalSlowReader(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(shell("i=0; while [ $i -lt 300000 ]; do echo line $i; i=$((i+1)); done"))
	before := memoryOf(t, b.cmd.Process.Pid)
	select {
	case <-time.After(3 * time.Second): // the program would print all of it in that time
	case err := <-b.exited:
		t.Fatalf("the agent ended: %v", err)
	}
	if grown := memoryOf(t, b.cmd.Process.Pid) - before; grown > 16<<20 {
		t.Errorf("the agent grew by %d bytes", grown)
	}
	code := s.exit()
	var want bytes.Buffer
	for i := range 300000 {
		fmt.Fprintf(&want, "line %d\r\n", i)
	}
	if code != 0 || !bytes.Equal(s.text, want.Bytes()) {
		t.Errorf("exit %d, %d bytes, want %d, ...%q", code, len(s.text), want.Len(), s.text[max(0, len(s.text)-20):])
	}
}

func memoryOf(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize()
}

// Pings come often enough for clients that give up after ten silent seconds.
func TestTerminalPings(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(shell("sleep 15; echo done"))
	last, widest := time.Now(), time.Duration(0)
	s.conn.SetPingHandler(func(string) error {
		widest, last = max(widest, time.Since(last)), time.Now()
		return nil // not even answered
	})
	if code := s.exit(); code != 0 || string(s.text) != "done\r\n" {
		t.Errorf("got %d %q", code, s.text)
	}
	if widest = max(widest, time.Since(last)); widest > 9*time.Second {
		t.Errorf("silent for %v", widest)
	}
}

func TestTerminalEndsWithTheSandbox(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(map[string]any{"cmd": []string{"sleep", "600.7103"}, "keep": 600})
	b.want(204, "POST", "/v1/shutdown", nil, nil)
	var err error
	for err == nil {
		_, err = s.tryNext()
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection lives on")
	}
	eventually(t, "it is dead", func() bool { return !alive("sleep 600.7103") })
}
