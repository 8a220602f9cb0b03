package control_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// start is a service by Serve, and its end.
func start(t *testing.T, edit func(*control.Settings)) (r *rig, log *logBuffer, stop func(), served chan error) {
	t.Helper()
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys(testKey), t.TempDir()
	edit(&set)
	log = &logBuffer{}
	ctx, cancel := context.WithCancel(zerolog.New(log).WithContext(context.Background()))
	t.Cleanup(cancel)
	l, rt := listen(t), plain.New(t)
	served = make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, rt, set) }()
	return &rig{t, "http://" + l.Addr().String(), rt, set.DefaultWorkdir, set, nil}, log, cancel, served
}

// On SIGTERM readiness goes first, and nothing else until the delay is over.
func TestReadinessGoesFirst(t *testing.T) {
	t.Parallel()
	r, _, stop, served := start(t, func(s *control.Settings) { s.DrainDelay = 8 * time.Second })
	id := r.box()
	if a := r.do("GET", "/ready", nil, "X-API-Key", ""); a.status != 200 {
		t.Fatalf("ready: %d %s", a.status, a.raw)
	}
	stop()
	eventually(t, "readiness is gone", func() bool {
		a := r.do("GET", "/ready", nil, "X-API-Key", "")
		return a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
	})
	if a := r.do("GET", "/health", nil); a.status != 200 {
		t.Errorf("health: %d", a.status)
	}
	if a := r.run(id, obj{"command": "sleep 0.5; echo whole"}); a.str("stdout") != "whole\n" {
		t.Errorf("a command after readiness went: %s", a.raw)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestDebugListener(t *testing.T) {
	t.Parallel()
	l := listen(t)
	address := l.Addr().String()
	_, _, stop, served := start(t, func(s *control.Settings) { s.DebugListen = address })
	if err := <-served; err == nil || !strings.Contains(err.Error(), "--debug-listen") {
		t.Errorf("a port that is taken: %v", err)
	}
	stop()
	l.Close()
	r, _, stop, served := start(t, func(s *control.Settings) { s.DebugListen = address })
	r.box()
	resp, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(raw), "goroutine profile") {
		t.Errorf("profile: %v: %.200s", err, raw)
	}
	if a := r.do("GET", "/debug/pprof/", nil); a.status != 404 {
		t.Errorf("profiles on the service's own port: %d", a.status)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := http.Get("http://" + address + "/debug/pprof/"); err == nil {
		t.Error("the debug port outlives the service")
	}
}

// A client's own id of a request is in the log and nowhere else.
func TestClientRequestID(t *testing.T) {
	t.Parallel()
	r, log, stop, served := start(t, func(*control.Settings) {})
	given := "abc-1.2\t\"}" + strings.Repeat("x", 100)
	a := r.do("POST", "/sandboxes", obj{"image": "i"}, "X-Request-ID", given)
	if got := a.header.Get("X-Request-ID"); len(got) != 36 {
		t.Errorf("the answer's id is %q", got)
	}
	stop()
	<-served
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["route"] == "/sandboxes" {
			if got := fields["client_request_id"]; got != "abc-1.2???"+strings.Repeat("x", 54) || fields["request_id"] != a.header.Get("X-Request-ID") || fields["owner"] != "default" {
				t.Errorf("logged %v", fields)
			}
			return
		}
	}
	t.Errorf("the request is not logged:\n%s", log)
}

// What goes beyond the bound is sent away for a moment; what keeps sandboxes alive, ends
// them or shows how things are is not.
func TestShedding(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.MaxExecs = 1 })
	id, gate := r.box(), r.work+"/go"
	run := func(command string) answer { return r.run(id, obj{"command": command, "concurrent": true}) }
	first := make(chan answer, 1)
	go func() { first <- run("touch begun; until test -e " + gate + "; do sleep 0.05; done") }()
	eventually(t, "a command under way", func() bool { return exists(r.work + "/begun") })
	for range 2 {
		a := run("touch shed")
		after, _ := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != http.StatusServiceUnavailable || after < 1 || after > 5 || !strings.Contains(a.str("detail"), "please retry") {
			t.Errorf("a command beyond the bound: %d, Retry-After %d, %s", a.status, after, a.raw)
		}
	}
	if exists(r.work + "/shed") {
		t.Error("a command that was sent away ran")
	}
	for _, path := range []string{"GET /health", "GET /ready", "POST /sandboxes/" + id + "/heartbeat", "GET /sandboxes/" + id, "DELETE /sandboxes/none", "GET /metrics"} {
		method, path, _ := strings.Cut(path, " ")
		if a := r.do(method, path, nil); a.status != 200 {
			t.Errorf("%s %s while commands are sent away: %d %s", method, path, a.status, a.raw)
		}
	}
	if m := string(r.do("GET", "/metrics", nil).raw); !strings.Contains(m, `orchard_shed_requests_total{what="execs"} 2`) {
		t.Error("the metrics do not count what was sent away")
	}
	// One that stands in line is let in.
	second := make(chan answer, 1)
	go func() { second <- run("echo in") }()
	eventually(t, "two in flight", func() bool {
		return strings.Contains(string(r.do("GET", "/metrics", nil).raw), `orchard_http_requests_in_flight{route="/sandboxes/{id}/exec"} 2`)
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := <-second; a.status == 200 && a.str("stdout") != "in\n" || a.status != 200 && a.status != 503 {
		t.Errorf("one in line: %d %s", a.status, a.raw)
	}
	if a := <-first; a.str("status") != "succeeded" {
		t.Errorf("the first: %s", a.raw)
	}
}

// Each metric that the dashboard asks for is one that the service has.
func TestDashboard(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil || board.Title == "" || len(board.Panels) == 0 {
		t.Fatalf("dashboard: %v, %q, %d panels", err, board.Title, len(board.Panels))
	}
	set := control.Defaults()
	set.Keys = control.ParseKeys(testKey)
	s, err := control.New(plain.New(t), set)
	if err != nil {
		t.Fatal(err)
	}
	known, used := s.MetricNames(), map[string]bool{}
	name := regexp.MustCompile(`\borchard_[a-z0-9_]+`)
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, metric := range name.FindAllString(target.Expr, -1) {
				if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, ""); known[base] {
					metric = base
				}
				if used[metric] = true; !known[metric] {
					t.Errorf("panel %q asks for %s, which there is not", p.Title, metric)
				}
			}
		}
	}
	for metric := range known {
		if !used[metric] {
			t.Errorf("no panel shows %s", metric)
		}
	}
}
