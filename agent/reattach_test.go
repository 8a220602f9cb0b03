package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/gorilla/websocket"
)

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (b *box) attach(session string, offset int64) *screen {
	b.t.Helper()
	return b.program(map[string]any{"type": "attach", "session": session, "offset": offset})
}

// A terminal that is kept goes on where its client was.
func TestReattach(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first := shell("read a; echo got $a; read b; echo got $b; exit 7")
	first["keep"] = 600
	s := b.program(first)
	s.typeIn("one\n")
	s.until("got one\r\n")
	s.conn.Close()
	again := b.attach(s.ready.Session, int64(len(s.text)))
	if again.ready.Offset != int64(len(s.text)) || again.ready.PID != s.ready.PID {
		t.Errorf("got %+v after %+v", again.ready, s.ready)
	}
	whole := b.attach(s.ready.Session, 0) // takes over
	if f := again.next(); f.Type != "error" || f.Message != "another client has attached to this terminal" {
		t.Errorf("the first is told %+v", f)
	}
	if _, err := again.tryNext(); !websocket.IsCloseError(err, 4409) {
		t.Errorf("the first: %v", err)
	}
	whole.typeIn("two\n")
	whole.until("got two\r\n")
	if !bytes.HasPrefix(whole.text, s.text) {
		t.Errorf("replayed %q, was %q", whole.text, s.text)
	}
	// The end is kept for who did not see it.
	if f := whole.next(); f.Type != "exit" || f.Code != 7 {
		t.Errorf("got %+v", f)
	}
	whole.conn.Close()
	late := b.attach(s.ready.Session, 0)
	if code := late.exit(); code != 7 || !bytes.Equal(late.text, whole.text) {
		t.Errorf("got %d %q, want %q", code, late.text, whole.text)
	}
	eventually(t, "who has seen the end ends it", func() bool {
		return b.terminal(map[string]any{"type": "attach", "session": s.ready.Session}).next().Type == "error"
	})
}

// Without a client a program goes on; what nobody fetched in time is gone, and said to be.
func TestDetachedOutput(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first := shell("read a; stty -opost; head -c 3000000 /dev/zero | tr '\\0' x; printf END; touch printed; read b")
	first["keep"] = 600
	s := b.program(first)
	s.typeIn("go\n")
	s.conn.Close()
	eventually(t, "all is printed", func() bool { _, err := os.Stat(b.dir + "/printed"); return err == nil })
	late := b.attach(s.ready.Session, 5)
	late.until("END")
	if n := len(late.text); n != 1<<20 || late.ready.Offset+int64(n) != int64(len("go\r\n"))+3_000_003 {
		t.Errorf("%d bytes from %d", n, late.ready.Offset)
	}
	late.typeIn("\n")
	if code := late.exit(); code != 0 {
		t.Errorf("got %d", code)
	}
}

func TestKeptNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	s := b.program(map[string]any{"cmd": []string{"sleep", "600.7104"}, "keep": 0.5})
	s.conn.Close()
	eventually(t, "it is dead", func() bool { return !alive("sleep 600.7104") })
	if f := b.terminal(map[string]any{"type": "attach", "session": s.ready.Session}).next(); f.Type != "error" {
		t.Errorf("got %+v", f)
	}
}
