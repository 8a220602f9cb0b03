package objtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Fault is what a Proxy does to a request.
type Fault string

// What networks and servers do. What a request without content cannot suffer is Drop instead.
const (
	Drop       Fault = "drop"        // the request is lost, and the connection with it
	Lose       Fault = "lose"        // the request takes effect, its answer is lost
	Late       Fault = "late"        // the connection is lost; the request takes effect after the next one
	Stall      Fault = "stall"       // no answer for as long as the caller waits
	CutAnswer  Fault = "cut answer"  // half of the answer, then the connection is lost
	CutContent Fault = "cut content" // the server gets half of the content as if it were all
	Flip       Fault = "flip"        // the server gets one bit of the content wrong
	Twice      Fault = "twice"       // the request is sent twice, the second answer is passed on
	Busy       Fault = "busy"        // 503 SlowDown; the request has no effect
	Fail       Fault = "fail"        // 500 InternalError; the request had its effect
)

// AllFaults is each of them.
var AllFaults = []Fault{Drop, Lose, Late, Stall, CutAnswer, CutContent, Flip, Twice, Busy, Fail}

// Proxy passes requests on to a server, over real connections, and does one fault to one
// of them. It counts every request from 1.
type Proxy struct {
	URL    string
	target *url.URL
	to     *http.Transport

	mu       sync.Mutex
	at       int
	fault    Fault
	requests []string
	late     *request // waits until the next request was answered
}

// request is one that can be sent again.
type request struct {
	*http.Request
	content []byte
}

// NewProxy passes on to the server at target until the test ends.
func NewProxy(t testing.TB, target string, at int, fault Fault) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: u, to: &http.Transport{DisableCompression: true}, at: at, fault: fault}
	server := httptest.NewServer(p)
	p.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // a stalled request would keep Close waiting
		server.Close()
		p.to.CloseIdleConnections()
	})
	return p
}

// Requests is each request so far, such as "PUT /bucket/key".
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Flush lets a late request take effect now.
func (p *Proxy) Flush() {
	p.mu.Lock()
	late := p.late
	p.late = nil
	p.mu.Unlock()
	if late != nil {
		p.forward(late)
	}
}

// ServeHTTP does the fault, or passes on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req := &request{r, content}
	p.mu.Lock()
	p.requests = append(p.requests, r.Method+" "+r.URL.RequestURI())
	fault := Fault("")
	if len(p.requests) == p.at {
		fault = p.fault
	}
	late := p.late
	p.late = nil
	if fault == Late {
		p.late = req
	}
	p.mu.Unlock()
	if late != nil {
		defer p.forward(late)
	}
	if len(content) == 0 && (fault == CutContent || fault == Flip) {
		fault = Drop
	}
	switch fault {
	case Drop, Late:
		panic(http.ErrAbortHandler)
	case Stall:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Busy:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case CutContent:
		req.content = content[:len(content)/2]
	case Flip:
		req.content = bytes.Clone(content)
		req.content[len(content)/2] ^= 4
	case Twice:
		p.forward(req)
	}
	resp, body := p.forward(req)
	switch {
	case resp == nil, fault == Lose:
		panic(http.ErrAbortHandler)
	case fault == Fail:
		refuse(w, http.StatusInternalServerError, "InternalError")
	case fault == CutAnswer:
		cut(w, resp, body)
	default:
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		w.Write(body)
	}
}

// forward is the server's answer, nil when it gave none.
func (p *Proxy) forward(r *request) (*http.Response, []byte) {
	u := *r.URL
	u.Scheme, u.Host = p.target.Scheme, p.target.Host
	out, err := http.NewRequest(r.Method, u.String(), bytes.NewReader(r.content))
	if err != nil {
		return nil, nil
	}
	out.URL.RawQuery = r.URL.RawQuery
	out.Host, out.Header = r.Host, r.Header.Clone() // both are signed
	resp, err := p.to.RoundTrip(out)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil
	}
	return resp, body
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>by the proxy</Message></Error>`)
}

// cut writes the first half of an answer as it would be on the wire.
func cut(w http.ResponseWriter, resp *http.Response, body []byte) {
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.TransferEncoding = nil
	raw, err := httputil.DumpResponse(resp, true)
	conn, _, herr := http.NewResponseController(w).Hijack()
	if herr != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	if head := len(raw) - len(body); err == nil && len(body) > 0 {
		conn.Write(raw[:head+len(body)/2])
	} else if err == nil {
		conn.Write(raw[:len(raw)/2])
	}
}
