package argo_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"orchard/test/e2e/suite"
)

// served is a policy on this machine that stages on the cluster ask.
type served struct {
	t           *testing.T
	host, tasks string
	url         string
	log         string // of the requests since it was last replaced
	stop        func()
}

// serve is the URL of a policy that solves this share of the tasks. The next call replaces it.
func (s *served) serve(solves string) string {
	s.t.Helper()
	if s.stop != nil {
		s.stop()
	}
	if s.url == "" {
		l, err := net.Listen("tcp", net.JoinHostPort(s.host, "0"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.url = l.Addr().String()
		l.Close()
	}
	s.log = filepath.Join(s.t.TempDir(), "requests.jsonl")
	cmd := orchardCommand(s.t.Context(), "llm", "scripted", "--follow", "--tasks", s.tasks, "--listen", s.url, "--solve-rate", solves, "--request-log", s.log)
	cmd.Stderr = s.t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	s.t.Cleanup(s.stop)
	suite.Eventually(s.t, "the policy serves", time.Minute, 100*time.Millisecond, func() string {
		c, err := net.Dial("tcp", s.url)
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
	return "http://" + s.url + "/v1"
}

// once fails the test when more than so many rollouts were begun twice.
func (s *served) once(but int) {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	begun, again := map[string]bool{}, 0
	for line := range bytes.Lines(raw) {
		var c struct {
			Task string
			Seed int64
			Step int
		}
		if err := json.Unmarshal(line, &c); err != nil || c.Step > 0 {
			continue // the last line may be half written
		}
		id := fmt.Sprint(c.Task, c.Seed)
		if begun[id] {
			again++
		}
		begun[id] = true
	}
	if len(begun) < nightTasks || again > but {
		s.t.Errorf("%d rollouts were begun, and %d of them twice", len(begun), again)
	}
}

// heard is a webhook on this machine, at the address that the release's Secret names.
type heard struct {
	host string
	mu   sync.Mutex
	said map[string]word // by the run's id
}

// word is what the tests look at of the webhook's message.
type word struct {
	RunID      string `json:"run_id"`
	Status     string
	Regression *bool
	Text       string
	Systems    []struct {
		Resolved    int64
		NewlyFailed *int64 `json:"newly_failed"`
	}
}

func hear(t *testing.T) *heard {
	t.Helper()
	var secret struct{ Data map[string]string }
	if err := object(namespace, "secret/orchard-credentials", &secret); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(secret.Data["ORCHARD_WEBHOOK_URL"])
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(string(text))
	if err != nil || at.Host == "" {
		t.Fatalf("the release has no webhook: %q (%v)", text, err)
	}
	h := &heard{host: at.Hostname(), said: map[string]word{}}
	l, err := net.Listen("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m word
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.said[m.RunID] = m
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return h
}

// of is what was said of a run.
func (h *heard) of(t *testing.T, run string) word {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.said[run]
	if !ok {
		t.Errorf("the webhook heard nothing of %s, only of %v", run, slices.Collect(maps.Keys(h.said)))
	}
	return m
}
