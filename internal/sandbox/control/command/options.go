package command

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local"
)

// options are all that a user can choose.
type options struct {
	runtime, listen, host string
	port                  int
	keysFile, logLevel    string
	heartbeats            bool
	tools                 cli.StringSlice
	settings              control.Settings
	local                 local.Options
}

func defaults() *options {
	return &options{
		runtime: "local", host: "127.0.0.1", port: 8000, logLevel: "info", heartbeats: true,
		settings: control.Defaults(),
	}
}

// span is a duration flag that also takes a bare number of unit.
type span struct {
	value *time.Duration
	unit  time.Duration
}

// Set implements cli.Generic.
func (s span) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		*s.value = time.Duration(n * float64(s.unit))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a number or a duration such as 90s", text)
	}
	*s.value = d
	return nil
}

// String implements cli.Generic.
func (s span) String() string {
	if s.value == nil {
		return ""
	}
	return s.value.String()
}

func (o *options) flags() []cli.Flag {
	set := &o.settings
	text := func(name, env, usage string, value *string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: *value, Destination: value}
	}
	yes := func(name, env, usage string, value *bool) cli.Flag {
		return &cli.BoolFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: *value, Destination: value}
	}
	seconds := func(name, env, usage string, value *time.Duration) cli.Flag {
		return &cli.GenericFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: span{value, time.Second}}
	}
	return []cli.Flag{
		text("runtime", "ORCHARD_RUNTIME", "where sandboxes run: `NAME` is local (kubernetes comes with a later release)", &o.runtime),
		text("listen", "ORCHARD_LISTEN", "serve on `HOST:PORT`, instead of --host and --port", &o.listen),
		text("host", "HOST", "serve on this `ADDRESS`", &o.host),
		&cli.IntFlag{Name: "port", EnvVars: []string{"PORT"}, Usage: "serve on this `PORT`; 0 is any, see the log", Value: o.port, Destination: &o.port},
		text("path-prefix", "PATH_PREFIX", "also serve below `/PREFIX`, for a proxy that leaves it on", &set.PathPrefix),
		text("api-keys-file", "API_KEYS_FILE", "take the keys in `FILE`, as well as those in $API_KEYS", &o.keysFile),
		yes("require-api-key", "REQUIRE_API_KEY", "refuse requests without a key", &set.RequireKey),
		text("log-level", "LOG_LEVEL", "`LEVEL`: debug (every request), info, warn or error", &o.logLevel),

		text("service-name", "SERVICE_NAME", "`NAME` that GET / tells", &set.ServiceName),
		text("sandbox-namespace", "SANDBOX_NAMESPACE", "`NAMESPACE` that answers name", &set.Namespace),
		text("default-cpu", "DEFAULT_CPU", "`QUANTITY` of a sandbox that names none", &set.DefaultCPU),
		text("default-memory", "DEFAULT_MEMORY", "`QUANTITY` of a sandbox that names none", &set.DefaultMemory),
		text("default-working-dir", "DEFAULT_WORKING_DIR", "`FOLDER` of commands, in a sandbox that names none", &set.DefaultWorkdir),
		seconds("default-timeout", "DEFAULT_TIMEOUT_SECONDS", "`TIME` of a command that names none", &set.DefaultTimeout),
		seconds("max-timeout", "MAX_TIMEOUT_SECONDS", "`TIME` that longer timeouts are cut to", &set.MaxTimeout),
		&cli.GenericFlag{Name: "sandbox-ttl", EnvVars: []string{"SANDBOX_TTL_HOURS"}, Usage: "end a sandbox that names no lifetime after `TIME`", Value: span{&set.DefaultLifetime, time.Hour}},
		yes("heartbeat-cleanup", "HEARTBEAT_CLEANUP_ENABLED", "the first heartbeat of a sandbox without a lease starts one", &o.heartbeats),
		seconds("heartbeat-timeout", "HEARTBEAT_TIMEOUT_SECONDS", "`TIME` of the lease that such a heartbeat starts", &set.HeartbeatLease),
		seconds("agent-ready-wait", "AGENT_READY_WAIT_SECONDS", "wait `TIME` for a sandbox that starts before answering 503", &set.ReadyWait),
		seconds("agent-retry-window", "EXEC_CONNECT_RETRY_WINDOW", "bear an agent that does not answer for `TIME`", &set.RetryWindow),
		&cli.Int64Flag{Name: "max-body", EnvVars: []string{"MAX_BODY_BYTES"}, Usage: "refuse a JSON request over `BYTES`", Value: set.MaxBody, Destination: &set.MaxBody},
		seconds("drain", "DRAIN_SECONDS", "on SIGTERM let requests end for `TIME`", &set.Drain),

		text("state-dir", "ORCHARD_STATE_DIR", "local: keep sandboxes in `FOLDER`; default: orchard in the user's cache folder", &o.local.StateDir),
		text("cache-dir", "ORCHARD_CACHE_DIR", "local: keep unpacked images and Go build caches in `FOLDER`; default: orchard in the user's cache folder", &o.local.CacheDir),
		text("agent", local.AgentVariable, "local: the orchard-agent `FILE`; default: beside this program, then on PATH", &o.local.AgentPath),
		&cli.StringSliceFlag{Name: "tool", EnvVars: []string{"ORCHARD_TOOLS"}, Usage: "local: host sandboxes also see `FOLDER`, read-only; repeatable", Destination: &o.tools},
	}
}

// complete reads the keys and checks everything; the error names the flags.
func (o *options) complete() error {
	var errs []error
	keys := os.Getenv("API_KEYS")
	if o.keysFile != "" {
		b, err := os.ReadFile(o.keysFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("--api-keys-file: %w", err))
		}
		keys += "\n" + string(b)
	}
	o.settings.Keys = control.ParseKeys(keys)
	if !o.heartbeats {
		o.settings.HeartbeatLease = 0
	}
	switch o.runtime {
	case "local":
	case "kubernetes":
		errs = append(errs, errors.New("--runtime: kubernetes comes with a later release; use local"))
	default:
		errs = append(errs, fmt.Errorf("--runtime: %q is not local", o.runtime))
	}
	if _, _, err := net.SplitHostPort(o.address()); err != nil {
		errs = append(errs, fmt.Errorf("--listen: %w", err))
	}
	if o.port < 0 || o.port > 65535 {
		errs = append(errs, fmt.Errorf("--port: %d is not from 0 to 65535", o.port))
	}
	// The original's names of levels are Python's.
	switch strings.ToLower(o.logLevel) {
	case "warning":
		o.logLevel = "warn"
	case "critical":
		o.logLevel = "error"
	}
	if o.local.StateDir == "" {
		o.local.StateDir = local.DefaultCache()
	}
	if o.local.CacheDir == "" {
		o.local.CacheDir = local.DefaultCache()
	}
	o.local.Tools = o.tools.Value()
	return errors.Join(append(errs, o.settings.Validate())...)
}

func (o *options) address() string {
	if o.listen != "" {
		return o.listen
	}
	return net.JoinHostPort(o.host, strconv.Itoa(o.port))
}

// original are settings of the original service without a meaning here: what they
// tuned does not exist.
var original = []string{
	"IN_CLUSTER", "NAMESPACE_PREFIX", "ORCHESTRATOR_NAMESPACE", "DEFAULT_BLOCK_NETWORK", "SANDBOX_NODE_SELECTOR",
	"MAX_CONCURRENT_EXECS", "MAX_CONCURRENT_CREATES", "K8S_API_CONCURRENCY", "K8S_CONNECT_TIMEOUT", "K8S_API_TIMEOUT",
	"K8S_API_RETRIES", "K8S_API_POOL_SIZE", "K8S_EXEC_CONCURRENCY", "K8S_EXEC_RETRIES", "AGENT_PORT",
	"AGENT_CONNECT_TIMEOUT", "AGENT_POOL_SIZE", "AGENT_INJECTOR_IMAGE", "ENABLE_SANDBOX_TOOLS", "SANDBOX_TOOLS_IMAGE",
	"SANDBOX_TOOLS_MOUNT_PATH", "SANDBOX_TOOLS_VOLUME_MODE", "AGENT_STARTUP_PERIOD", "AGENT_STARTUP_TIMEOUT",
	"AGENT_STARTUP_FAILURE_THRESHOLD", "AGENT_READINESS_PERIOD", "AGENT_READINESS_TIMEOUT",
	"AGENT_READINESS_FAILURE_THRESHOLD", "AGENT_READY_CACHE_MISS_K8S_FALLBACK", "EXEC_CONNECT_BACKOFF_CAP",
	"ORPHAN_JOB_TTL_HOURS", "CLEANUP_INTERVAL_SECONDS", "PENDING_TIMEOUT_BUFFER_SECONDS", "REDIS_URL", "USE_REDIS", "LOG_FORMAT",
}

// ignored is which of them are set, sorted.
func ignored(environ []string) []string {
	var names []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(original, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
