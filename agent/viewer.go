package agent

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"orchard/agent/wire"
)

const (
	initPatience  = 10 * time.Second
	closePatience = 5 * time.Second // for a client to take its last words
)

// viewer is a client of a terminal. Only its own goroutine writes messages; pings
// go between them.
type viewer struct {
	conn *websocket.Conn
	at   int64         // output sent so far; guarded by the terminal
	gone chan struct{} // closed when the connection is of no use any more
	once sync.Once
	// clean is set before gone when the client itself has ended the conversation.
	clean bool
}

func (v *viewer) leave() { v.once.Do(func() { close(v.gone) }) }

// say reports whether a message went out.
func (v *viewer) say(frame any) bool { return v.conn.WriteJSON(frame) == nil }

// bye ends the conversation; the client answers, or has had time to.
func (v *viewer) bye(code int, text string) {
	over := time.Now().Add(closePatience)
	_ = v.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), over)
	_ = v.conn.SetReadDeadline(over)
}

// Who may connect is said by the signature, not by what page a browser shows.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// terminal serves one client of a terminal over a WebSocket.
func (s *Server) terminal(w http.ResponseWriter, r *http.Request) error {
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil // it has answered
	}
	defer conn.Close()
	conn.SetReadLimit(wire.MaxFrame)
	// The library's own answer to a ping fails when a message is being written for long.
	conn.SetPingHandler(func(text string) error {
		return conn.WriteControl(websocket.PongMessage, []byte(text), time.Time{})
	})
	v := &viewer{conn: conn, gone: make(chan struct{})}
	t, f, code, err := s.first(conn)
	if err != nil {
		v.say(wire.Fault{Type: wire.FrameError, Message: err.Error()})
		v.bye(code, "")
		for err = nil; err == nil; {
			_, _, err = conn.NextReader()
		}
		return nil
	}
	s.running.Go(func() { // for as long as the sandbox lives
		select {
		case <-s.end.Done():
			conn.Close()
		case <-v.gone:
		}
	})
	s.attach(t, v, f)
	return nil
}

// first reads the frame that says which terminal, in time.
func (s *Server) first(conn *websocket.Conn) (t *terminal, f wire.ClientFrame, code int, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(initPatience))
	_, text, err := conn.ReadMessage()
	if err != nil {
		return nil, f, wire.CloseBadInit, errors.New("init timeout")
	}
	_ = conn.SetReadDeadline(time.Time{})
	if f, err = wire.ParseClientFrame(text); err != nil {
		return nil, f, wire.CloseBadInit, fmt.Errorf("bad init frame: %w", err)
	}
	switch f.Type {
	case wire.FrameAttach:
		if t = s.terminals.get(f.Session); t == nil {
			return nil, f, wire.CloseBadInit, fmt.Errorf("there is no session %.40q, or not any more", f.Session)
		}
		return t, f, 0, nil
	case wire.FrameInit:
		if err := checkInit(&f); err != nil {
			return nil, f, wire.CloseBadInit, fmt.Errorf("bad init frame: %w", err)
		}
		if t, err = s.startTerminal(f); err != nil {
			return nil, f, wire.CloseSpawn, err
		}
		return t, f, 0, nil
	}
	return nil, f, wire.CloseBadInit, fmt.Errorf("bad init frame: the first is of type %.40q", f.Type)
}
