package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"orchard/internal/exit"
	"orchard/internal/logx"
)

// Service is the REST API over a Runtime. Safe for concurrent use.
type Service struct {
	runtime *tenants // a handler can reach no other runtime
	set     Settings
	mux     *http.ServeMux
	table   map[string][]string // the methods of each route
	metrics *metrics
	keys    *keyring
	quotas  *quotas
	prices  prices
	creates *slots
	execs   *slots
	now     func() time.Time
	leaving atomic.Bool     // GET /ready says no
	drain   context.Context // over when long polls are to answer early
	stop    context.CancelFunc
}

var _ http.Handler = (*Service)(nil)

// New is a service over rt; settings must be valid.
func New(rt Runtime, settings Settings) (*Service, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	s := &Service{set: settings, mux: http.NewServeMux(), table: map[string][]string{}, now: time.Now}
	var err error
	if s.keys, err = newKeyring(settings, s.now); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	if s.prices, err = readPrices(settings.PricesFile); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	s.metrics = newMetrics(rt, newCollector(rt.List, s.prices, s.now))
	s.quotas = newQuotas(rt, s.now, func(owner, quota string) { s.metrics.refusals.WithLabelValues(owner, quota).Inc() })
	shed := func(what string) { s.metrics.shed.WithLabelValues(what).Inc() }
	s.creates, s.execs = newSlots("creates", settings.MaxCreates, shed), newSlots("execs", settings.MaxExecs, shed)
	s.runtime = &tenants{runtime: rt, quotas: s.quotas, allow: settings.AllowPlacement, egress: newEgressRules(settings)}
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
		"/resources":                   {get: s.resources},
		"/sandboxes":                   {get: s.list, post: s.creating(s.create)},
		"/sandboxes/{id}":              {get: s.get, del: s.remove},
		"/sandboxes/{id}/wait":         {get: s.wait},
		"/sandboxes/{id}/events":       {get: s.events},
		"/sandboxes/{id}/network":      {get: s.getNetwork, put: s.putNetwork},
		"/cost":                        {get: s.cost},
		"/pools":                       {get: s.listPools},
		"/pools/{pool}":                {get: s.getPool, put: s.putPool, del: s.deletePool},
		"/images/prepull":              {get: s.listPrepulls, post: s.postPrepull},
		"/images/prepull/{prepull}":    {get: s.getPrepull, del: s.deletePrepull},
		"/sandboxes/{id}/heartbeat":    {post: s.heartbeat},
		"/sandboxes/{id}/exec":         {post: s.running(s.exec)},
		"/sandboxes/{id}/apply_patch":  {post: s.running(s.applyPatch)},
		"/sandboxes/{id}/files":        {get: s.getFile, post: s.putFile},
		"/sandboxes/{id}/files/list":   {get: s.listFiles},
		"/sandboxes/{id}/raw":          {get: s.getRaw, put: s.putRaw},
		"/sandboxes/{id}/tar":          {get: s.getTar, put: s.putTar},
		"/sandboxes/{id}/jobs":         {get: s.listJobs},
		"/sandboxes/{id}/ports":        {get: s.listPorts, post: s.openPort},
		"/sandboxes/{id}/ports/{port}": {del: s.closePort},
		"/jobs/{id}":                   {get: s.getJob},
		"/jobs/{id}/wait":              {get: s.waitJob},
		"/jobs/{id}/kill":              {post: s.killJob},
		"/jobs/{id}/output":            {get: s.jobOutput},
		"/jobs/{id}/stream":            {get: s.streamJob},
		"/jobs/{id}/stdin":             {post: s.jobStdin},
		"/jobs/{id}/signal":            {post: s.jobSignal},
	} {
		for method, h := range m {
			m[method] = s.authorised(h)
		}
		s.handle(pattern, m)
	}
	s.handle("/sandboxes/{id}/exec/pty", methods{get: s.authorisedBy(s.socketKey, s.pty)})
	s.handle("/{$}", methods{get: s.root})
	s.handle("/health", methods{get: s.health})
	s.handle("/ready", methods{get: s.readiness})
	s.handle("/openapi.json", methods{get: s.openapi})
	s.handle("/docs", methods{get: s.docs})
	s.handle("/redoc", methods{get: s.docs})
	s.handle("/metrics", methods{get: s.metrics.serve})
	s.handle("/", nil)
}

// handle serves pattern by method; with no methods at all it is the answer to
// everything unknown.
func (s *Service) handle(pattern string, m map[string]handler) {
	s.table[pattern] = slices.Sorted(maps.Keys(m))
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
		err := h(w, r)
		if err != nil && r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // to a client that ended only its half, no answer would be a 200
		}
		if err != nil {
			writeFailure(w, w.Header().Get("X-Request-ID"), err)
		}
	})
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	route   string // the pattern that matched
	sandbox string // of a route below /sandboxes/{id}
	owner   string // whose key it was
	status  int
	bytes   int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
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
	h := http.Handler(http.HandlerFunc(s.route))
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

// route sends a request to the ports of sandboxes or to the API.
func (s *Service) route(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, portPrefix) {
		s.portal(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
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
	case status >= 500 && route != "/ready": // that it says no is as it should be
		event = log.Warn()
	case changes && r.Method != http.MethodGet:
		event = log.Info()
	}
	if rec.sandbox != "" {
		event.Str(logx.Sandbox, rec.sandbox)
	}
	if rec.owner != "" {
		event.Str("owner", rec.owner)
	}
	if given := clientRequestID(r); given != "" {
		event.Str("client_request_id", given)
	}
	event.Str("request_id", id).Str("method", r.Method).Str("route", route).Int("status", status).
		Int64("bytes", rec.bytes).Dur(logx.DurMS, took).Msg("request")
}
