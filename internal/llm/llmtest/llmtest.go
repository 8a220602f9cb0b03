// Package llmtest is a real model server for tests: an in-process HTTP server that
// speaks chat completions, says what the test scripted, and fails on demand.
//
// It never thinks. Every request it gets is in its log, in order of arrival.
package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"orchard/internal/llm"
)

// Request is one request as it came.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	Doc          map[string]any // Body as JSON; nil when it is none
}

// Reply is what the server does about a request. The zero value is an empty answer.
type Reply struct {
	Response llm.Response // sent as JSON, or as a stream when the request asks for one

	Status int               // other than 0 and 200: Body is sent with it
	Header map[string]string // added to the answer
	Body   string            // sent as it is, instead of Response, when not empty

	Delay time.Duration // before the first byte; ends early when the client goes away
	Drop  bool          // the connection is closed without an answer
	Cut   int           // the connection is closed after so many bytes of the body; 0 is never
	// Pieces splits the body into separate writes of these lengths; the rest goes at the end.
	Pieces []int
}

// Server is a running server. Its fields must not be changed.
type Server struct {
	URL string // base URL, with /v1

	mu       sync.Mutex
	requests []Request
	models   []string
	answer   func(n int, r Request) Reply
}

// New starts a server that ends with the test. The answer function is called with the
// number of the chat request, from 0; calls may overlap. GET /models lists models, or
// is 404 when there are none.
func New(t testing.TB, models []string, answer func(n int, r Request) Reply) *Server {
	s := &Server{models: models, answer: answer}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL + "/v1"
	return s
}

// NewTLS is New over TLS with a certificate of its own authority, which comes back as PEM.
func NewTLS(t testing.TB, models []string, answer func(n int, r Request) Reply) (*Server, []byte) {
	s := &Server{models: models, answer: answer}
	h := httptest.NewUnstartedServer(s)
	h.Config.ErrorLog = silent
	h.StartTLS()
	t.Cleanup(h.Close)
	s.URL = h.URL + "/v1"
	return s, certificate(h.Certificate().Raw)
}

// Script answers the n-th chat request with the n-th reply, and those after the last
// with the last.
func Script(replies ...Reply) func(int, Request) Reply {
	return func(n int, _ Request) Reply { return replies[min(n, len(replies)-1)] }
}

// Text is a reply with a plain answer.
func Text(content string) Reply {
	return Reply{Response: llm.Response{
		Message: llm.Message{Role: "assistant", Content: content}, FinishReason: "stop",
		Usage: &llm.Usage{PromptTokens: 10, CompletionTokens: 5},
	}}
}

// Requests is the chat requests up to now.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	if r.URL.Path == "/v1/models" && len(s.models) > 0 {
		s.list(w)
		return
	}
	if r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	_ = json.Unmarshal(body, &req.Doc) // nil then, which the test sees
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	s.answer(n, req).send(w, r, req)
}

func (s *Server) list(w http.ResponseWriter) {
	type entry struct {
		ID string `json:"id"`
	}
	out := struct {
		Data []entry `json:"data"`
	}{}
	for _, m := range s.models {
		out.Data = append(out.Data, entry{m})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // a client that went away is the test's affair
}

// send does what the reply says.
func (p Reply) send(w http.ResponseWriter, r *http.Request, req Request) {
	if p.Delay > 0 {
		select {
		case <-time.After(p.Delay):
		case <-r.Context().Done():
			return
		}
	}
	if p.Drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range p.Header {
		w.Header().Set(k, v)
	}
	body, kind := []byte(p.Body), "text/html"
	if stream, _ := req.Doc["stream"].(bool); p.Body == "" && p.Status <= 200 && stream {
		body, kind = llm.EncodeStream(p.Response, 3), "text/event-stream"
	} else if p.Body == "" && p.Status <= 200 {
		body, kind = llm.EncodeWhole(p.Response), "application/json"
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(max(p.Status, 200))
	if p.Cut > 0 {
		_, _ = w.Write(body[:min(p.Cut, len(body))])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, n := range p.Pieces {
		n = min(n, len(body))
		_, _ = w.Write(body[:n])
		_ = http.NewResponseController(w).Flush()
		body = body[n:]
	}
	_, _ = w.Write(body)
}
