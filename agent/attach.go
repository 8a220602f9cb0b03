package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"orchard/agent/wire"
)

// attach makes v the terminal's client until it leaves, another one comes or all is said.
func (s *Server) attach(t *terminal, v *viewer, f wire.ClientFrame) {
	ready := t.take(v, f.Offset)
	if f.Type == wire.FrameAttach {
		t.resize(f)
	}
	var rest sync.WaitGroup
	rest.Go(v.ping)
	rest.Go(func() { s.listen(t, v) })
	said := t.follow(v, ready)
	if said { // all of it, and so the client's close follows
		<-v.gone
	}
	v.leave()
	v.conn.Close()
	rest.Wait()
	s.detach(t, v, said && v.clean)
}

// take makes v the one client, from an offset of the output on.
func (t *terminal) take(v *viewer, offset int64) wire.Ready {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.at = min(max(offset, t.out.start()), t.out.total)
	if before := t.viewer; before != nil { // its own goroutine tells it, if it listens at all
		time.AfterFunc(closePatience, func() { before.conn.Close() })
	}
	t.viewer = v
	t.tell()
	return wire.Ready{Type: wire.FrameReady, PID: t.process.pid, Session: t.id, Offset: v.at}
}

// detach is the end of v, and of the terminal unless that is to be kept for another
// client: one that has ended too, as nobody may have seen how.
func (s *Server) detach(t *terminal, v *viewer, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.viewer != v {
		return
	}
	t.viewer = nil
	t.tell()
	if done || t.keep == 0 {
		s.terminals.remove(t)
		t.killLocked()
		return
	}
	time.AfterFunc(t.keep, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.viewer == nil && time.Since(t.alone) >= t.keep {
			s.terminals.remove(t)
			t.killLocked()
		}
	})
	t.alone = time.Now()
}

// follow sends v the output as it comes, and how the program ended; true when v has all.
func (t *terminal) follow(v *viewer, ready wire.Ready) bool {
	if !v.say(ready) {
		return false
	}
	block := make([]byte, wire.MaxStdout)
	for {
		n, offset, state, changed := t.look(v, block)
		switch {
		case state == taken:
			v.say(wire.Fault{Type: wire.FrameError, Message: "another client has attached to this terminal"})
			v.bye(wire.CloseTaken, "taken over")
			return false
		case n > 0:
			if !v.say(wire.Stdout{Type: wire.FrameStdout, Data: block[:n], Offset: offset}) {
				return false
			}
			t.sent(v, n)
		case state == ended:
			if !v.say(wire.Exit{Type: wire.FrameExit, Code: t.code}) {
				return false
			}
			v.bye(websocket.CloseNormalClosure, "")
			return true
		default:
			select {
			case <-changed:
			case <-v.gone:
				return false
			}
		}
	}
}

// What a terminal is to a client.
const (
	lives = iota
	ended
	taken
)

// look copies the next of the output, and says what to wait for when there is none.
func (t *terminal) look(v *viewer, into []byte) (n int, offset int64, state int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.viewer != v {
		return 0, 0, taken, nil
	}
	select {
	case <-t.over:
		state = ended
	default:
	}
	return t.out.read(into, v.at), v.at, state, t.changed
}

// sent makes room for more output.
func (t *terminal) sent(v *viewer, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.at += int64(n)
	t.tell()
}

// listen does what a client says until it is silent for good.
func (s *Server) listen(t *terminal, v *viewer) {
	defer v.conn.Close()
	defer v.leave()
	for {
		_, text, err := v.conn.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			v.clean = errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure
			return
		}
		f, err := wire.ParseClientFrame(text)
		if _, _, state, _ := t.look(v, nil); err != nil || state == taken {
			continue
		}
		switch f.Type {
		case wire.FrameStdin:
			t.typed(f.Data, v.gone)
		case wire.FrameResize:
			t.resize(f)
		case wire.FrameSignal:
			s.processes.signal(t.process, terminalSignal(f.Sig))
		case wire.FrameClose:
			s.processes.signal(t.process, terminalSignal("TERM"))
		}
	}
}

func (t *terminal) resize(f wire.ClientFrame) {
	if t.tty != nil && f.Rows > 0 && f.Cols > 0 {
		_ = resize(t.tty, f.Rows, f.Cols) // it has ended when this fails
	}
}

// ping keeps clients that give up on silence, and finds out that one is gone. It waits for
// no answer: a client that does not read now does not answer either, and is there.
func (v *viewer) ping() {
	tick := time.NewTicker(wire.PingSeconds * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.gone:
			return
		case <-tick.C:
		}
		if v.conn.WriteControl(websocket.PingMessage, nil, time.Time{}) != nil {
			v.leave()
			v.conn.Close()
			return
		}
	}
}
