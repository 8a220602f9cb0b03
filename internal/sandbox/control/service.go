package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"orchard/internal/logx"
)

// Service is the REST API over a Runtime. Safe for concurrent use.
type Service struct {
	runtime Runtime
	set     Settings
	mux     *http.ServeMux
	metrics *metrics
	drain   context.Context // over when long polls are to answer early
	stop    context.CancelFunc
}

var _ http.Handler = (*Service)(nil)

// New is a service over rt; settings must be valid.
func New(rt Runtime, settings Settings) (*Service, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	s := &Service{runtime: rt, set: settings, mux: http.NewServeMux(), metrics: newMetrics(rt)}
	s.drain, s.stop = context.WithCancel(context.Background())
	s.routes()
	return s, nil
}

// Drain makes requests that wait answer with what they have. It cannot be undone.
func (s *Service) Drain() { s.stop() }

// handler answers a request or returns why not: a *failure, or else a bug.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Service) routes() {
	type methods map[string]handler
	const get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	for pattern, m := range map[string]methods{
		"/resources":                  {get: s.resources},
		"/sandboxes":                  {get: s.list, post: s.create},
		"/sandboxes/{id}":             {get: s.get, del: s.remove},
		"/sandboxes/{id}/wait":        {get: s.wait},
		"/sandboxes/{id}/heartbeat":   {post: s.heartbeat},
		"/sandboxes/{id}/exec":        {post: s.exec},
		"/sandboxes/{id}/apply_patch": {post: s.applyPatch},
		"/sandboxes/{id}/files":       {get: s.getFile, post: s.putFile},
		"/sandboxes/{id}/files/list":  {get: s.listFiles},
		"/sandboxes/{id}/raw":         {get: s.getRaw, put: s.putRaw},
		"/jobs/{id}":                  {get: s.getJob},
		"/jobs/{id}/wait":             {get: s.waitJob},
		"/jobs/{id}/kill":             {post: s.killJob},
		"/jobs/{id}/output":           {get: s.jobOutput},
	} {
		for method, h := range m {
			m[method] = s.authorised(h)
		}
		s.handle(pattern, m)
	}
	s.handle("/{$}", methods{get: s.root})
	s.handle("/health", methods{get: s.health})
	s.handle("/metrics", methods{get: s.metrics.serve})
	s.handle("/", nil)
}

// handle serves pattern by method; with no methods at all it is the answer to
// everything unknown.
func (s *Service) handle(pattern string, m map[string]handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if rec, ok := w.(*recorder); ok {
			rec.route = pattern
			if strings.HasPrefix(pattern, "/sandboxes/") {
				rec.sandbox = r.PathValue("id")
			}
		}
		busy := s.metrics.inFlight.WithLabelValues(pattern)
		busy.Inc()
		defer busy.Dec()
		h, ok := m[r.Method]
		switch {
		case m == nil:
			h = func(http.ResponseWriter, *http.Request) error { return fail(http.StatusNotFound, "Not Found") }
		case !ok:
			h = func(http.ResponseWriter, *http.Request) error {
				return fail(http.StatusMethodNotAllowed, "Method Not Allowed")
			}
		}
		if err := h(w, r); err != nil && r.Context().Err() == nil {
			writeFailure(w, w.Header().Get("X-Request-ID"), err)
		}
	})
}

func (s *Service) authorised(h handler) handler {
	if !s.set.RequireKey {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		switch key := r.Header.Get("X-API-Key"); {
		case key == "":
			return fail(http.StatusUnauthorized, "Missing API key. Please provide X-API-Key header.")
		case !s.set.Keys.Match(key):
			return fail(http.StatusForbidden, "Invalid API key")
		}
		return h(w, r)
	}
}

// owner names the caller's key without being it: what one key asked for is never
// attached to what another did.
func owner(r *http.Request) string {
	sum := sha256.Sum256([]byte("owner\x00" + r.Header.Get("X-API-Key")))
	return hex.EncodeToString(sum[:16])
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	route   string // the pattern that matched
	sandbox string // of a route below /sandboxes/{id}
	status  int
	bytes   int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, rec, id := time.Now(), &recorder{ResponseWriter: w}, uuid.NewString()
	rec.Header().Set("X-Request-ID", id)
	h := http.Handler(s.mux)
	if p := s.set.PathPrefix; p != "" && strings.HasPrefix(r.URL.Path, p+"/") {
		h = http.StripPrefix(p, h)
	}
	defer func() {
		fault := recover()
		if fault != nil && fault != http.ErrAbortHandler {
			zerolog.Ctx(r.Context()).Error().Str("request_id", id).Str("route", rec.route).
				Str("panic", fmt.Sprint(fault)).Bytes("stack", debug.Stack()).Msg("request panicked")
			if rec.status == 0 {
				writeFailure(rec, id, fmt.Errorf("panic: %v", fault))
				fault = nil
			}
		}
		s.log(r, rec, id, time.Since(began))
		if fault != nil {
			panic(http.ErrAbortHandler) // cuts the connection, so that half an answer is not taken for a whole
		}
	}()
	h.ServeHTTP(rec, r)
}

// log writes one line and counts. It names no path, query or body: they hold
// commands and file names.
func (s *Service) log(r *http.Request, rec *recorder, id string, took time.Duration) {
	status, route := rec.status, rec.route
	if status == 0 {
		status = 499 // the client left first
	}
	s.metrics.observe(route, r.Method, status, took)
	log := zerolog.Ctx(r.Context())
	event := log.Debug()
	switch changes := route == "/sandboxes" || route == "/sandboxes/{id}"; {
	case status >= 500:
		event = log.Warn()
	case changes && r.Method != http.MethodGet:
		event = log.Info()
	}
	if rec.sandbox != "" {
		event.Str(logx.Sandbox, rec.sandbox)
	}
	event.Str("request_id", id).Str("method", r.Method).Str("route", route).Int("status", status).
		Int64("bytes", rec.bytes).Dur(logx.DurMS, took).Msg("request")
}
