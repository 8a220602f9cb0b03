package command

import (
	"bytes"
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
	"orchard/internal/sandbox/kube"
	"orchard/internal/sandbox/local"
)

// options are all that a user can choose.
type options struct {
	runtime, listen, host string
	port                  int
	logLevel              string
	heartbeats            bool
	tools, placement      cli.StringSlice
	settings              control.Settings
	local                 local.Options
	kube                  kube.Options
	lists                 kubeLists
	network               networkTexts
	canary                bool
}

// The runtimes.
const (
	runtimeLocal      = "local"
	runtimeKubernetes = "kubernetes"
)

func defaults() *options {
	return &options{
		runtime: runtimeLocal, port: 8000, logLevel: "info", heartbeats: true, canary: true,
		settings: control.Defaults(), kube: kube.Defaults(),
		network: networkTexts{probes: inCluster(), dnsPods: "kube-system/k8s-app=kube-dns"},
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

// text, yes and seconds are flags with a variable and a default.
func text(name, env, usage string, value *string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: *value, Destination: value}
}

func yes(name, env, usage string, value *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: *value, Destination: value}
}

func seconds(name, env, usage string, value *time.Duration) cli.Flag {
	return &cli.GenericFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: span{value, time.Second}}
}

func number(name, env, usage string, value *int) cli.Flag {
	return &cli.IntFlag{Name: name, EnvVars: []string{env}, Usage: usage, Value: *value, Destination: value}
}

func (o *options) flags() []cli.Flag {
	set := &o.settings
	namespace := text("namespace", "SANDBOX_NAMESPACE", "`NAMESPACE` of the sandboxes", &set.Namespace)
	namespace.Aliases = []string{"sandbox-namespace"}
	return append([]cli.Flag{
		text("runtime", "ORCHARD_RUNTIME", "where sandboxes run: `NAME` is local or kubernetes", &o.runtime),
		text("listen", "ORCHARD_LISTEN", "serve on `HOST:PORT`, instead of --host and --port", &o.listen),
		text("host", "HOST", "serve on this `ADDRESS`; default: 127.0.0.1, with kubernetes 0.0.0.0", &o.host),
		number("port", "PORT", "serve on this `PORT`; 0 is any, see the log", &o.port),
		text("path-prefix", "PATH_PREFIX", "also serve below `/PREFIX`, for a proxy that leaves it on", &set.PathPrefix),
		text("api-keys-file", "API_KEYS_FILE", "take the keys in `FILE`, as well as those in $API_KEYS; it is read again when it changes", &set.KeysFile),
		yes("require-api-key", "REQUIRE_API_KEY", "refuse requests without a key", &set.RequireKey),
		text("log-level", "LOG_LEVEL", "`LEVEL`: debug (every request), info, warn or error", &o.logLevel),

		text("service-name", "SERVICE_NAME", "`NAME` that GET / tells", &set.ServiceName),
		namespace,
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
		&cli.StringSliceFlag{Name: "allow-placement", EnvVars: []string{"ALLOW_PLACEMENT"}, Usage: "keys that are no admin's may set `FIELD` of a sandbox's placement, or FIELD=VALUE; repeatable", Value: cli.NewStringSlice(set.AllowPlacement...), Destination: &o.placement},
		number("max-concurrent-creates", "MAX_CONCURRENT_CREATES", "answer 503 over `NUMBER` creates at a time; 0 is no bound", &set.MaxCreates),
		number("max-concurrent-execs", "MAX_CONCURRENT_EXECS", "answer 503 over `NUMBER` commands whose clients wait; 0 is no bound", &set.MaxExecs),
		text("prices-file", "PRICES_FILE", "what sandboxes cost, from `FILE`", &set.PricesFile),
		seconds("drain", "DRAIN_SECONDS", "on SIGTERM let requests end for `TIME`", &set.Drain),
		seconds("drain-delay", "DRAIN_DELAY_SECONDS", "on SIGTERM say no at /ready for `TIME` before that", &set.DrainDelay),
		text("debug-listen", "DEBUG_LISTEN", "serve pprof on loopback `HOST:PORT`", &set.DebugListen),

		text("state-dir", "ORCHARD_STATE_DIR", "local: keep sandboxes in `FOLDER`; default: orchard in the user's cache folder", &o.local.StateDir),
		text("cache-dir", "ORCHARD_CACHE_DIR", "local: keep unpacked images and Go build caches in `FOLDER`; default: orchard in the user's cache folder", &o.local.CacheDir),
		text("agent", local.AgentVariable, "local: the orchard-agent `FILE`; default: beside this program, then on PATH", &o.local.AgentPath),
		&cli.StringSliceFlag{Name: "tool", EnvVars: []string{"ORCHARD_TOOLS"}, Usage: "local: host sandboxes also see `FOLDER`, read-only; repeatable", Destination: &o.tools},
	}, append(o.kubeFlags(), o.networkFlags()...)...)
}

// complete reads the keys and checks everything; the error names the flags.
func (o *options) complete() error {
	var errs []error
	o.settings.Keys = control.ParseKeys(os.Getenv("API_KEYS"))
	o.settings.AllowPlacement = o.placement.Value()
	if !o.heartbeats {
		o.settings.HeartbeatLease = 0
	}
	host := "127.0.0.1"
	switch o.runtime {
	case runtimeLocal:
	case runtimeKubernetes:
		host = "0.0.0.0"
		errs = append(errs, o.completeKube())
	default:
		errs = append(errs, fmt.Errorf("--runtime: %q is neither local nor kubernetes", o.runtime))
	}
	if o.host == "" {
		o.host = host
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
	set := o.settings
	if set.KeysFile != "" {
		content, err := os.ReadFile(set.KeysFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("--api-keys-file: %w", err))
		} else if len(bytes.TrimSpace(content)) == 0 {
			set.KeysFile = "" // as good as none
		}
	}
	return errors.Join(append(errs, set.Validate())...)
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
	"IN_CLUSTER", "NAMESPACE_PREFIX", "ORCHESTRATOR_NAMESPACE", "DEFAULT_BLOCK_NETWORK",
	"K8S_API_CONCURRENCY", "K8S_CONNECT_TIMEOUT", "K8S_API_TIMEOUT",
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
