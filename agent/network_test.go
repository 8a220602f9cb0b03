package agent

import (
	"crypto/ed25519"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// While the network is open nothing is run and health says why; then everything works.
func TestNetworkClosesFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := newServer(t.Context(), Config{Cwd: t.TempDir(), Spool: t.TempDir(), Lease: time.Hour, Closed: []netip.AddrPort{addressOf(l)}}, slog.New(slog.NewTextHandler(io.Discard, nil)))
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

func addressOf(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// A refusal is believed at once, silence when it lasts, and what listens never: also when this
// process comes so late to look that its time is over.
func TestProbe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := net.Listen("tcp", "[::1]:0")
	if err != nil { // a machine without IPv6
		gone, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, wait := range []time.Duration{0, time.Nanosecond, time.Minute} {
		if got := probe(t.Context(), addressOf(l), wait); got != accepted {
			t.Errorf("what listens, within %v: %v", wait, got)
		}
		if got := probe(t.Context(), addressOf(gone), wait); got != refused {
			t.Errorf("what is gone, within %v: %v", wait, got)
		}
	}
	l.Close()
	if reachable(t.Context(), addressOf(l)) {
		t.Error("what is closed is taken for open")
	}
	quiet := full(t)
	began := time.Now()
	if got := probe(t.Context(), quiet, 200*time.Millisecond); got != silent || time.Since(began) < 200*time.Millisecond {
		t.Errorf("what is silent: %v after %v", got, time.Since(began))
	}
	if reachable(t.Context(), quiet) {
		t.Error("what stays silent is taken for open")
	}
}

// full is the address of a listener that answers nobody any more: its queue is full.
func full(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	for { // until one is not answered
		c, err := net.DialTimeout("tcp", at.String(), 300*time.Millisecond)
		if err != nil {
			return at
		}
		t.Cleanup(func() { c.Close() })
	}
}

// Only an answer, or the lack of any way, is a refusal.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]answer{
		nil: accepted, unix.ECONNREFUSED: refused, unix.EHOSTUNREACH: refused, unix.EPERM: refused, unix.ETIMEDOUT: silent,
		unix.EMFILE: untried, unix.ENOBUFS: untried, unix.EADDRNOTAVAIL: untried,
	} {
		if got := meaning(err); got != want {
			t.Errorf("%v means %v, want %v", err, got, want)
		}
	}
}
