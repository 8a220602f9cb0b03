package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"orchard/agent/wire"
)

// Server answers the routes of agent/wire for one sandbox.
type Server struct {
	cfg       Config
	log       *slog.Logger
	verifier  *wire.Verifier
	processes *processes
	spool     *spoolDir
	jobs      *table
	lease     *lease
	claim     *claim
	memory    *memoryWatch
	network   *network
	terminals *terminals
	grants    *grants
	end       context.Context // over when the sandbox ends
	running   sync.WaitGroup  // jobs, and captures of what outlives them
}

// newServer makes a server whose jobs end with ctx.
func newServer(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	spool, err := openSpoolDir(cfg.Spool)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: log, spool: spool,
		verifier:  wire.NewVerifier(cfg.UID, cfg.Keys, nil),
		processes: newProcesses(),
		lease:     newLease(0),
		claim:     newClaim(cfg),
		memory:    watchMemory(nil),
		terminals: newTerminals(),
		grants:    newGrants(),
		end:       ctx,
		network:   newNetwork(cfg.Closed, log),
	}
	if s.network.isClosed() {
		s.startLease()
	}
	s.jobs = newTable(spool, func(j *job) {
		s.running.Go(func() {
			s.run(ctx, j)
			s.jobs.ended(j)
		})
	})
	return s, nil
}

// handler serves every route.
func (s *Server) handler() http.Handler {
	signed := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /v1/jobs":               s.submit,
		"GET /v1/jobs":                s.listJobs,
		"GET /v1/jobs/{id}":           s.job,
		"POST /v1/jobs/{id}/kill":     s.kill,
		"PUT /v1/jobs/{id}/delivered": s.delivered,
		"GET /v1/jobs/{id}/output":    s.output,
		"GET /v1/jobs/{id}/stream":    s.stream,
		"PUT /v1/jobs/{id}/stdin":     s.stdin,
		"POST /v1/jobs/{id}/signal":   s.signalJob,
		"GET /v1/terminal":            s.terminal,
		"PUT /v1/tar":                 s.putTar,
		"GET /v1/tar":                 s.getTar,
		"POST /v1/ports":              s.openPort,
		"GET /v1/ports":               s.listPorts,
		"DELETE /v1/ports/{id}":       s.closePort,
		"GET /v1/tunnel":              s.tunnel,
		"GET /v1/files":               s.getFile,
		"PUT /v1/files":               s.putFile,
		"GET /v1/files/list":          s.listFiles,
		"POST /v1/lease":              s.extendLease,
		"POST /v1/claim":              s.claimed,
		"POST /v1/shutdown":           s.shutdown,
	} {
		signed.Handle(pattern, s.answer(handle))
	}
	signed.Handle("/", s.answer(func(_ http.ResponseWriter, r *http.Request) error {
		return notFound("there is no route %s %s", r.Method, r.URL.Path)
	}))
	open := http.NewServeMux()
	open.Handle("GET /v1/health", s.whenClosed(http.HandlerFunc(s.health)))
	open.Handle("/", s.onlySigned(s.whenClosed(s.reached(signed))))
	return open
}

// onlySigned lets a request through to next when a controller signed it for this sandbox.
func (s *Server) onlySigned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.verifier.Verify(r); err != nil {
			s.fail(w, r, &problem{http.StatusUnauthorized, wire.CodeUnsigned, err.Error()})
			return
		}
		proven(r.Context())
		next.ServeHTTP(w, r)
	})
}

// answer turns a handler's error into the answer. A handler that has begun to answer
// and then fails ends the connection, so that its client does not take a part for the whole.
func (s *Server) answer(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := &beginning{ResponseWriter: w}
		err := handle(begun, r)
		if err == nil {
			return
		}
		if begun.begun {
			s.log.Debug("answer cut short", "route", r.Pattern, "err", err.Error())
			panic(http.ErrAbortHandler)
		}
		s.fail(w, r, err)
	})
}

// beginning knows whether an answer has begun.
type beginning struct {
	http.ResponseWriter
	begun bool
}

func (b *beginning) WriteHeader(status int) {
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *beginning) Write(data []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := &problem{http.StatusInternalServerError, wire.CodeInternal, err.Error()}
	errors.As(err, &p)
	if p.status == http.StatusInternalServerError {
		s.log.Error("request failed", "route", r.Pattern, "err", p.detail)
	}
	_ = writeJSON(w, p.status, wire.Error{Code: p.code, Detail: p.detail}) // the client is gone when this fails
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	_ = writeJSON(w, http.StatusOK, wire.Health{Status: "ok", PID: os.Getpid(), Protocol: wire.Version, Version: s.cfg.Version})
}
