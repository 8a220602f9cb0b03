package agent

import (
	"crypto/ed25519"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
)

// While the network is open nothing is run and health says why; then everything works.
func TestNetworkClosesFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := newServer(t.Context(), Config{Cwd: t.TempDir(), Spool: t.TempDir(), Lease: time.Hour, Closed: []string{l.Addr().String()}}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.spool.close()
	closed := make(chan struct{})
	go func() { defer close(closed); s.awaitClosed(t.Context()) }()
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/health", nil))
		return w
	}
	for range 3 { // it is tried again and again
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if w := ask(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), wire.CodeNetworkOpen) {
			t.Fatalf("with an open network: %d %s", w.Code, w.Body)
		}
	}
	if !s.lease.expires.IsZero() {
		t.Error("the lease runs before the sandbox can be used")
	}
	w := httptest.NewRecorder()
	s.whenClosed(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went through an open network's gate") })).
		ServeHTTP(w, httptest.NewRequest("POST", "/v1/jobs", nil))
	l.Close()
	<-closed
	if s.lease.expires.IsZero() {
		t.Error("the lease does not run")
	}
	if w := ask(); w.Code != http.StatusOK {
		t.Errorf("with a closed network: %d %s", w.Code, w.Body)
	}
}

// Variables that lead into the cluster are not given to commands; the user's own are.
func TestHiddenVariables(t *testing.T) {
	t.Parallel()
	key, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseConfig([]string{"--uid", "u", "--keys", wire.FormatPublicKey(key), "--env", "KUBERNETES_PORT=mine"}, []string{
		"ORCHARD_AGENT_HIDE=KUBERNETES_,OTHER_", "KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_PORT=tcp://10.0.0.1:443", "OTHER_A=b", "KUBERNETES=c",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range cfg.Env {
		if strings.HasPrefix(entry, "KUBERNETES") || strings.HasPrefix(entry, "OTHER") {
			got = append(got, entry)
		}
	}
	slices.Sort(got)
	if want := []string{"KUBERNETES=c", "KUBERNETES_PORT=mine"}; !slices.Equal(got, want) {
		t.Errorf("commands get %q, want %q", got, want)
	}
}

// Silence is believed when it lasts: an answer that is late, as on a busy machine, is one.
func TestSilenceIsNoAnswerYet(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = probe(t.Context(), l.Addr().String(), time.Nanosecond) // no time to answer in
	if err == nil || !isTimeout(err) {
		t.Fatalf("a probe without time ended with %v", err)
	}
	if !reachable(t.Context(), l.Addr().String()) {
		t.Error("what listens is taken for closed")
	}
	if err := probe(t.Context(), "127.0.0.1:1", time.Minute); err == nil || isTimeout(err) {
		t.Errorf("a refusal is %v, and is believed at once", err)
	}
}
