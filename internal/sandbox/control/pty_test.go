package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"orchard/internal/sandbox/control"
)

// dial opens a WebSocket; 0 is success, else the status of the refusal.
func (r *rig) dial(path string, header http.Header) (*websocket.Conn, int, string) {
	r.t.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial(strings.Replace(r.url, "http", "ws", 1)+path, header)
	if err != nil {
		if resp == nil {
			r.t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		return nil, resp.StatusCode, string(raw)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn, 0, ""
}

type frame struct {
	Type    string
	Data    []byte
	Session string
	Offset  int64
	Code    int
	Message string
}

func next(t testing.TB, conn *websocket.Conn) frame {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	var f frame
	_, raw, err := conn.ReadMessage()
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// play reads to the end.
func play(t testing.TB, conn *websocket.Conn) (text string, code int) {
	t.Helper()
	for {
		switch f := next(t, conn); f.Type {
		case "stdout":
			text += string(f.Data)
		case "exit":
			return text, f.Code
		case "ready":
		default:
			t.Fatalf("got %+v after %q", f, text)
		}
	}
}

func TestPTY(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(set *control.Settings) {
		set.PathPrefix, set.Keys = "/api", control.ParseKeys(testKey+" odd+key%2x")
	})
	id := r.box()
	path := "/sandboxes/" + id + "/exec/pty"
	for name, c := range map[string]struct {
		path   string
		header http.Header
	}{
		"query":       {path + "?api_key=" + testKey, nil},
		"raw query":   {path + "?x=1&api_key=odd+key%2x", nil},
		"quoted":      {path + "?api_key=odd%2Bkey%252x", nil},
		"header":      {path, http.Header{"X-Api-Key": {testKey}}},
		"subprotocol": {path, http.Header{"Sec-Websocket-Protocol": {"other, api_key." + testKey}}},
		"prefix":      {"/api" + path + "?api_key=" + testKey, nil},
	} {
		conn, status, text := r.dial(c.path, c.header)
		if conn == nil {
			t.Errorf("%s: %d %s", name, status, text)
			continue
		}
		conn.WriteJSON(obj{"type": "init", "cmd": []string{"sh", "-c", "stty size; exit 4"}, "env": obj{}, "cwd": nil, "rows": 30, "cols": 90, "login_shell": false})
		if text, code := play(t, conn); text != "30 90\r\n" || code != 4 {
			t.Errorf("%s: got %q %d", name, text, code)
		}
	}
}

func TestPTYRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	r.rt.Hold("held")
	r.do("POST", "/sandboxes", obj{"image": "host", "sandbox_id": "held"})
	ended := r.box()
	r.rt.End(ended, control.ReasonOOMKilled, "")
	for path, want := range map[string]int{
		"/sandboxes/" + id + "/exec/pty":                             401,
		"/sandboxes/" + id + "/exec/pty?api_key=wrong":               403,
		"/sandboxes/nosuch/exec/pty?api_key=" + testKey:              404,
		"/sandboxes/" + ended + "/exec/pty?api_key=" + testKey:       404,
		"/sandboxes/held/exec/pty?api_key=" + testKey:                409,
		"/sandboxes/" + id + "/exec/pty/nothing?api_key=" + testKey:  404,
		"/sandboxes/UPPER" + id + "/exec/pty?api_key=" + testKey:     404,
		"/sandboxes/" + id + "/exec/pty?api_key=" + testKey + "&x=y": 0,
	} {
		if _, status, text := r.dial(path, nil); status != want {
			t.Errorf("%s: got %d %s, want %d", path, status, text, want)
		}
	}
	if a := r.do("GET", "/sandboxes/"+id+"/exec/pty", nil); a.status != 426 {
		t.Errorf("no upgrade: got %d", a.status)
	}
}

// A client that loses its service goes on by another one.
func TestPTYReattachesThroughAnotherReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	path := "/sandboxes/" + id + "/exec/pty?api_key=" + testKey
	first, _, _ := r.dial(path, nil)
	first.WriteJSON(obj{"type": "init", "cmd": []string{"sh", "-c", "echo one; read x; echo $x; exit 6"}, "keep": 600})
	ready := next(t, first)
	got := ""
	for !strings.Contains(got, "one\r\n") {
		got += string(next(t, first).Data)
	}
	r.s.Drain()
	for {
		if _, _, err := first.ReadMessage(); err != nil {
			break
		}
	}
	other := r.another()
	second, status, text := other.dial(path, nil)
	if second == nil {
		t.Fatalf("%d %s", status, text)
	}
	second.WriteJSON(obj{"type": "attach", "session": ready.Session, "offset": len(got)})
	second.WriteJSON(obj{"type": "stdin", "data": []byte("two\n")})
	if text, code := play(t, second); !strings.HasSuffix(text, "two\r\n") || strings.Contains(text, "one") || code != 6 {
		t.Errorf("got %q %d", text, code)
	}
}

// The end of a sandbox is the end of its terminals.
func TestPTYEndsWithTheSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	conn, _, _ := r.dial("/sandboxes/"+id+"/exec/pty?api_key="+testKey, nil)
	conn.WriteJSON(obj{"type": "init", "cmd": []string{"sleep", "600"}})
	if f := next(t, conn); f.Type != "ready" {
		t.Fatalf("got %+v", f)
	}
	r.do("DELETE", "/sandboxes/"+id, nil)
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			if strings.Contains(fmt.Sprint(err), "timeout") {
				t.Error(err)
			}
			return
		}
	}
}

// No log line holds a key or a port's token, wherever they were sent.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	var logged lockedBuffer
	log := zerolog.New(&logged)
	server := httptest.NewUnstartedServer(r.s)
	server.Config.BaseContext = func(net.Listener) context.Context { return log.WithContext(context.Background()) }
	server.Start()
	t.Cleanup(server.Close)
	r.url = server.URL
	conn, _, _ := r.dial("/sandboxes/"+id+"/exec/pty?api_key="+testKey, nil)
	conn.WriteJSON(obj{"type": "init", "cmd": []string{"true"}})
	play(t, conn)
	r.dial("/sandboxes/"+id+"/exec/pty?api_key=wrong"+testKey, nil)
	port := r.open(id, 1)
	visit(t, "GET", port.str("url"), "")
	visit(t, "GET", r.url+"/p/"+id+"/_/?port_token="+port.str("token"), "")
	eventually(t, "all is logged", func() bool {
		return strings.Count(logged.String(), `"route":"/p/"`) == 2 && strings.Count(logged.String(), "exec/pty") == 2
	})
	for _, secret := range []string{testKey, port.str("token")} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("a secret is in the log:\n%s", logged.String())
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }
