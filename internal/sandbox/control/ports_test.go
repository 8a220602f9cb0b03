package control_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"orchard/internal/sandbox/control"
)

// program is a server on a port of a sandbox; the plain runtime's sandboxes share this
// machine's loopback.
func program(t testing.TB, h http.HandlerFunc) int {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.CloseClientConnections)
	u, _ := url.Parse(server.URL)
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// visit requests a port's URL as a stranger does: no key, no redirect followed.
func visit(t testing.TB, method, to, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func (r *rig) open(id string, port int) answer {
	r.t.Helper()
	a := r.do("POST", "/sandboxes/"+id+"/ports", obj{"port": port, "ttl_seconds": 600})
	if a.status != 200 {
		r.t.Fatalf("open: %d %s", a.status, a.raw)
	}
	return a
}

func TestPort(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.PathPrefix = "/api" })
	id := r.box()
	port := program(t, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s host=%s prefix=%s proto=%s key=%q%q body=%s", q.Method, q.RequestURI, q.Host,
			q.Header.Get("X-Forwarded-Prefix"), q.Header.Get("X-Forwarded-Proto"), q.Header.Get("X-API-Key"), q.Header.Get("X-Port-Token"), body)
	})
	a := r.open(id, port)
	token, to := a.str("token"), a.str("url")
	if len(token) < 26 || to != r.url+"/p/"+id+"/"+token+"/" || a.json["expires_at"] == nil {
		t.Fatalf("got %s", a.raw)
	}
	prefix := "/p/" + id + "/" + token
	free := r.url + "/p/" + id + "/_"
	for _, c := range []struct{ method, to, body, want string }{
		{"GET", to, "", `GET / host=localhost prefix=` + prefix + ` proto=http key="""" body=`},
		{"POST", to + "a%2Fb//../c?x=1&port_token=app", strings.Repeat("z", 100_000), `POST /a%2Fb//../c?x=1&port_token=app host=localhost prefix=` + prefix + ` proto=http key="""" body=` + strings.Repeat("z", 100_000)},
		{"DELETE", strings.TrimSuffix(to, "/"), "", `DELETE / host=localhost prefix=` + prefix + ` proto=http key="""" body=`},
		{"GET", strings.Replace(to, "/p/", "/api/p/", 1) + "x", "", `GET /x host=localhost prefix=/api` + prefix + ` proto=http key="""" body=`},
		{"GET", free + "/x?a=b&port_token=" + token + "&c", "", `GET /x?a=b&c host=localhost prefix=/p/` + id + `/_ proto=http key="""" body=`},
	} {
		if resp, text := visit(t, c.method, c.to, c.body, "X-API-Key", "mine"); resp.StatusCode != 200 || text != c.want {
			t.Errorf("%s %s: %d %.300s\nwant %.300s", c.method, c.to, resp.StatusCode, text, c.want)
		}
	}
	if resp, text := visit(t, "GET", free+"/x", "", "X-Port-Token", token); resp.StatusCode != 200 || !strings.Contains(text, `key=""""`) {
		t.Errorf("header token: %d %s", resp.StatusCode, text)
	}
	list := r.do("GET", "/sandboxes/"+id+"/ports", nil)
	if one := list.json["ports"].([]any)[0].(obj); one["id"] != a.str("id") || one["port"] != float64(port) || one["token"] != nil || one["url"] != nil {
		t.Errorf("list: %s", list.raw)
	}
	for _, wrong := range []obj{{}, {"port": 0}, {"port": 65536}, {"port": "x"}, {"port": 80, "ttl_seconds": -1}} {
		if a := r.do("POST", "/sandboxes/"+id+"/ports", wrong); a.status != 422 {
			t.Errorf("%v: %d %s", wrong, a.status, a.raw)
		}
	}
}

// Every refusal is typed, and none is a redirect.
func TestPortRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, ended := r.box(), r.box()
	port := program(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") })
	good := r.open(id, port)
	revoked := r.open(id, port)
	if a := r.do("DELETE", "/sandboxes/"+id+"/ports/"+revoked.str("id"), nil); a.status != 200 {
		t.Fatalf("revoke: %d %s", a.status, a.raw)
	}
	if a := r.do("DELETE", "/sandboxes/"+id+"/ports/"+revoked.str("id"), nil); a.status != 404 {
		t.Errorf("revoke again: %d %s", a.status, a.raw)
	}
	short := r.do("POST", "/sandboxes/"+id+"/ports", obj{"port": port, "ttl_seconds": 0.05})
	eventually(t, "it expires", func() bool {
		resp, _ := visit(t, "GET", short.str("url"), "")
		return resp.StatusCode == 410
	})
	lost := r.open(ended, port)
	r.rt.End(ended, control.ReasonOOMKilled, "")
	silent := program(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, c := range map[string]struct {
		to   string
		want int
	}{
		"good":                {good.str("url"), 200},
		"no token":            {r.url + "/p/" + id, 401},
		"no token, slash":     {r.url + "/p/" + id + "/", 401},
		"nowhere to take it":  {r.url + "/p/" + id + "/_/x", 401},
		"wrong token":         {r.url + "/p/" + id + "/AAAAAAAAAAAAAAAAAAAAAAAAAA/", 401},
		"wrong, unclean path": {r.url + "/p/" + id + "/AAAAAAAAAAAAAAAAAAAAAAAAAA//a/../b", 401},
		"another's token":     {r.url + "/p/" + r.box() + "/" + good.str("token") + "/", 401},
		"wrong query token":   {r.url + "/p/" + id + "/_/x?port_token=wrong", 401},
		"revoked":             {revoked.str("url"), 410},
		"expired":             {short.str("url"), 410},
		"unknown sandbox":     {r.url + "/p/nosuch/" + good.str("token") + "/", 404},
		"ended sandbox":       {lost.str("url"), 410},
		"nothing listens":     {r.open(id, 1).str("url"), 502},
		"no answer":           {r.open(id, silent).str("url"), 502},
	} {
		resp, text := visit(t, "GET", c.to, "")
		if resp.StatusCode != c.want || c.want != 200 && !strings.HasPrefix(text, `{"detail":`) {
			t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, text, c.want)
		}
		if !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: policy %q", name, resp.Header.Get("Content-Security-Policy"))
		}
	}
}

// A WebSocket goes through, by path, query and header; revoking cuts it, on every replica.
func TestPortWebSocket(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id, other := r.box(), r.another()
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	port := program(t, func(w http.ResponseWriter, q *http.Request) {
		conn, err := up.Upgrade(w, q, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, text, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, text) != nil {
				return
			}
		}
	})
	a := r.open(id, port)
	token := a.str("token")
	free := "/p/" + id + "/_/ws"
	var open []*websocket.Conn
	for _, c := range []struct {
		r      *rig
		path   string
		header http.Header
	}{
		{r, "/p/" + id + "/" + token + "/ws", nil}, {other, free + "?port_token=" + token, nil}, {r, free, http.Header{"X-Port-Token": {token}}},
	} {
		conn, status, text := c.r.dial(c.path, c.header)
		if conn == nil {
			t.Fatalf("%s: %d %s", c.path, status, text)
		}
		conn.WriteMessage(websocket.TextMessage, []byte("hello"))
		conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, text, err := conn.ReadMessage(); err != nil || string(text) != "hello" {
			t.Fatalf("%s: %q %v", c.path, text, err)
		}
		open = append(open, conn)
	}
	if _, status, _ := r.dial(free, nil); status != 401 {
		t.Errorf("no token: %d", status)
	}
	if _, status, _ := r.dial(free+"?port_token=x", nil); status != 401 {
		t.Errorf("wrong token: %d", status)
	}
	other.do("DELETE", "/sandboxes/"+id+"/ports/"+a.str("id"), nil)
	for i, conn := range open {
		if _, _, err := conn.ReadMessage(); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if _, status, _ := r.dial(free+"?port_token="+token, nil); status != 410 {
		t.Errorf("revoked: %d", status)
	}
}

// What a sandbox answers can do nothing to the API's origin.
func TestPortContained(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	port := program(t, func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		switch q.URL.Path {
		case "/to":
			h.Set("Location", q.URL.Query().Get("l"))
			w.WriteHeader(302)
			return
		case "/cookies":
			io.WriteString(w, q.Header.Get("Cookie"))
			return
		}
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src *", "Clear-Site-Data": `"*"`, "Service-Worker-Allowed": "/", "Strict-Transport-Security": "max-age=1",
			"Cross-Origin-Opener-Policy": "same-origin", "X-Request-ID": "mine", "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Origin": "null",
		} {
			h.Set(name, value)
		}
		h.Add("Set-Cookie", "a=1; Path=/; Domain=127.0.0.1; HttpOnly")
		h.Add("Set-Cookie", "__Host-b=2; Path=/; Secure")
		h.Add("Set-Cookie", "c=3; Path=/sub; SameSite=Strict")
	})
	to := r.open(id, port).str("url")
	prefix := strings.TrimSuffix(strings.TrimPrefix(to, r.url), "/")
	resp, _ := visit(t, "GET", to, "", "Origin", "null")
	h := resp.Header
	if policies := strings.Join(h.Values("Content-Security-Policy"), ";"); !strings.Contains(policies, "sandbox allow-scripts") || strings.Contains(policies, "allow-same-origin") || !strings.Contains(policies, "default-src *") {
		t.Errorf("policies: %s", policies)
	}
	for _, name := range []string{"Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Cross-Origin-Opener-Policy", "Access-Control-Allow-Credentials"} {
		if h.Get(name) != "" {
			t.Errorf("%s: %s", name, h.Get(name))
		}
	}
	if ids := h.Values("X-Request-ID"); len(ids) != 1 || ids[0] == "mine" {
		t.Errorf("request ids: %v", ids)
	}
	if h.Get("Referrer-Policy") != "no-referrer" || h.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %v", h)
	}
	want := []string{"port-a=1; Path=" + prefix + "/; HttpOnly", "port-__Host-b=2; Path=" + prefix + "/; Secure", "port-c=3; Path=" + prefix + "/sub; SameSite=Strict"}
	if got := h.Values("Set-Cookie"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("cookies: %q, want %q", got, want)
	}
	if _, text := visit(t, "GET", to+"cookies", "", "Cookie", "sso=secret; port-a=1; other=x; port-c=3"); text != "a=1; c=3" {
		t.Errorf("the program is sent %q", text)
	}
	for from, want := range map[string]string{
		"/x?y#z": prefix + "/x?y#z", "x": "x", "http://localhost:8080/x": prefix + "/x", "https://127.0.0.1": prefix + "/",
		strings.Replace(r.url, "http:", "", 1) + "/x": prefix + "/x", "https://example.org/x": "https://example.org/x",
		prefix + "/x": prefix + "/x", "//example.org/x": "//example.org/x",
	} {
		if resp, _ := visit(t, "GET", to+"to?l="+url.QueryEscape(from), ""); resp.Header.Get("Location") != want {
			t.Errorf("location %q: got %q, want %q", from, resp.Header.Get("Location"), want)
		}
	}
	resp, _ = visit(t, "OPTIONS", to, "", "Origin", "null", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "x-a")
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Methods") != "PUT" || resp.Header.Get("Access-Control-Allow-Headers") != "x-a" {
		t.Errorf("preflight: %d %v", resp.StatusCode, resp.Header)
	}
}

// Text comes as the program writes it, not when it is done.
func TestPortStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	read := make(chan struct{})
	port := program(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		<-read
		io.WriteString(w, "two")
	})
	resp, err := http.Get(r.open(id, port).str("url"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := make([]byte, 3)
	_, err = io.ReadFull(resp.Body, text)
	close(read)
	rest, _ := io.ReadAll(resp.Body)
	if err != nil || string(text)+string(rest) != "onetwo" {
		t.Errorf("%v %s%s", err, text, rest)
	}
}
