package control

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
	"time"

	"orchard/internal/quantity"
)

// Settings are what an operator chooses. Start from Defaults; the names in comments
// are the flags that Validate complains about.
type Settings struct {
	ServiceName string // --service-name, shown by GET /
	Namespace   string // --sandbox-namespace, shown in answers
	PathPrefix  string // --path-prefix: "/sandboxes/…" is served below it as well as at the root; "" is none
	Keys        Keys
	KeysFile    string // --api-keys-file: more keys, with names and quotas; read again when it changes; "" is none
	RequireKey  bool   // --require-api-key; false opens everything to everybody who can connect

	DefaultCPU      string        // --default-cpu of a sandbox that names none
	DefaultMemory   string        // --default-memory
	DefaultWorkdir  string        // --default-working-dir
	DefaultTimeout  time.Duration // --default-timeout of a command
	MaxTimeout      time.Duration // --max-timeout: longer ones are cut to it
	DefaultLifetime time.Duration // --sandbox-ttl of a sandbox that names none
	// HeartbeatLease is the lease that a heartbeat starts on a sandbox made without one
	// (--heartbeat-timeout); 0 leaves such a sandbox without a lease.
	HeartbeatLease time.Duration

	ReadyWait   time.Duration // --agent-ready-wait: how long a request waits for its sandbox before 503
	RetryWindow time.Duration // --agent-retry-window: how long an agent may be silent before 503
	MaxBody     int64         // --max-body of a JSON request, bytes
	Drain       time.Duration // --drain: how long requests may take to end after SIGTERM
	DrainDelay  time.Duration // --drain-delay: how long before that GET /ready says no, so that balancers leave first

	// AllowPlacement is what keys that are no admin's may set of the fields that say which
	// machine runs a sandbox (--allow-placement): FIELD, or FIELD=VALUE for one value of it.
	AllowPlacement []string
	// ClosedNetworks are the cluster's own networks that are not private by their numbers
	// (--closed-networks); AllowEgress are private ones that keys which are no admin's may
	// open to their sandboxes (--allow-egress).
	ClosedNetworks []netip.Prefix
	AllowEgress    []netip.Prefix
	MaxExecs       int    // --max-concurrent-execs: commands whose clients wait; more are 503; 0 is no bound
	MaxCreates     int    // --max-concurrent-creates: the same of sandboxes that are being made
	PricesFile     string // --prices-file: what things cost; "" is not known
	DebugListen    string // --debug-listen: loopback address of net/http/pprof; "" is none
}

// Defaults are the original's values where it has them.
func Defaults() Settings {
	return Settings{
		ServiceName:     "sandbox-orchestrator",
		Namespace:       "sandbox-pods",
		RequireKey:      true,
		DefaultCPU:      "4",
		DefaultMemory:   "16Gi",
		DefaultWorkdir:  "/workspace",
		DefaultTimeout:  5 * time.Minute,
		MaxTimeout:      24 * time.Hour,
		DefaultLifetime: 2 * time.Hour,
		HeartbeatLease:  3 * time.Minute,
		ReadyWait:       15 * time.Second,
		RetryWindow:     45 * time.Second,
		MaxBody:         512 << 20,
		Drain:           10 * time.Second,
		MaxExecs:        10_000,
		MaxCreates:      200,
	}
}

// Validate joins everything that is wrong with s.
func (s Settings) Validate() error {
	var errs []error
	wrong := func(flag, format string, a ...any) {
		errs = append(errs, fmt.Errorf(flag+": "+format, a...))
	}
	if s.RequireKey && s.Keys.Len() == 0 && s.KeysFile == "" {
		errs = append(errs, errNoKey)
	}
	if s.PathPrefix != "" && (!strings.HasPrefix(s.PathPrefix, "/") || path.Clean(s.PathPrefix) != s.PathPrefix || s.PathPrefix == "/") {
		wrong("--path-prefix", "%q must look like /some/prefix", s.PathPrefix)
	}
	if !path.IsAbs(s.DefaultWorkdir) {
		wrong("--default-working-dir", "%q is not an absolute path", s.DefaultWorkdir)
	}
	for _, q := range []struct{ flag, value string }{{"--default-cpu", s.DefaultCPU}, {"--default-memory", s.DefaultMemory}} {
		if _, err := quantity.Parse(q.value); err != nil {
			wrong(q.flag, "%w", err)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{
		{"--default-timeout", s.DefaultTimeout, time.Second},
		{"--max-timeout", s.MaxTimeout, s.DefaultTimeout},
		{"--sandbox-ttl", s.DefaultLifetime, time.Second},
		{"--heartbeat-timeout", s.HeartbeatLease, 0},
		{"--agent-ready-wait", s.ReadyWait, 0},
		{"--agent-retry-window", s.RetryWindow, 0},
		{"--drain", s.Drain, 0},
		{"--drain-delay", s.DrainDelay, 0},
	} {
		if d.value < d.least || d.value > maxDuration {
			wrong(d.flag, "%v must be from %v to %v", d.value, d.least, maxDuration)
		}
	}
	if s.MaxBody < 1<<10 {
		wrong("--max-body", "%d must be at least 1024", s.MaxBody)
	}
	if err := placementRules(s.AllowPlacement).validate(); err != nil {
		wrong("--allow-placement", "%w", err)
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"--max-concurrent-execs", s.MaxExecs}, {"--max-concurrent-creates", s.MaxCreates}} {
		if n.value < 0 {
			wrong(n.flag, "%d is below zero", n.value)
		}
	}
	if host, _, err := net.SplitHostPort(s.DebugListen); s.DebugListen != "" {
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			wrong("--debug-listen", "%q must be a loopback address and a port, such as 127.0.0.1:6060", s.DebugListen)
		}
	}
	return errors.Join(errs...)
}

var errNoKey = errors.New("API_KEYS: no key; set API_KEYS or API_KEYS_FILE, or REQUIRE_API_KEY=false to let everybody in")

// maxDuration bounds every duration that a client or an operator gives: job ids hold
// timeouts in 32 bits of milliseconds.
const maxDuration = 30 * 24 * time.Hour
