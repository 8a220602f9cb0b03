package agent

import (
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orchard/agent/wire"
)

// defaultPath is where programs are looked for when nothing else is said.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// envPrefix is of the agent's own variables, which commands do not get.
const envPrefix = "ORCHARD_AGENT_"

// Config is one agent's settings.
type Config struct {
	Listen  string              // "unix:PATH", "fd:NUMBER" or a TCP address such as ":9090"
	UID     string              // of the sandbox: a request signed for another one is refused
	Keys    []ed25519.PublicKey // the controllers'
	Cwd     string              // default working folder, absolute; made when absent
	Spool   string              // where the agent's own private folder is made
	Lease   time.Duration       // from the first request until the first heartbeat; 0 is without end
	Env     []string            // "NAME=VALUE" of every command, each name once
	Version string              // of the build, for health
	// Identity is the seed of the key that this agent proves itself with, over TLS; nil is
	// to serve plainly, where nobody else can be in its place.
	Identity []byte
	// Closed are addresses where something listens that must not be reachable from here:
	// nothing is run before none is.
	Closed []netip.AddrPort
}

// ParseConfig reads flags and their environment twins; environ is os.Environ()'s. Its
// errors are *ConfigError and name the flag; flag.ErrHelp in one means that help went
// to out.
func ParseConfig(args, environ []string, out io.Writer) (Config, error) {
	own := map[string]string{}
	base := map[string]string{}
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		if name, ok := strings.CutPrefix(key, envPrefix); ok {
			own[name] = value
		} else {
			base[key] = value
		}
	}
	flags := flag.NewFlagSet("orchard-agent", flag.ContinueOnError)
	flags.SetOutput(out)
	text := func(name, fallback, usage string) *string {
		env := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if value, ok := own[env]; ok {
			fallback = value
		}
		return flags.String(name, fallback, usage+" ($"+envPrefix+env+")")
	}
	listen := text("listen", ":9090", "where to serve: `ADDRESS` is unix:PATH, fd:NUMBER or host:port")
	uid := text("uid", "", "the sandbox's `UID`, which every request is signed for")
	keys := text("keys", "", "the controllers' public `KEYS`, base64, separated by commas or spaces")
	keysFile := text("keys-file", "", "a `FILE` with those keys")
	cwd := text("cwd", "/workspace", "default working `FOLDER` of commands and relative paths, made when absent")
	spool := text("spool", filepath.Join(os.TempDir(), "orchard-agent"), "`FOLDER` for output that is too long for memory")
	closed := text("closed", "", "`ADDRESSES` (host:port, by number, separated by commas) where something listens that a closed network does not reach: nothing is run before that holds")
	hide := text("hide", "", "`PREFIXES` (separated by commas or spaces) of variables that commands do not get, unless --env gives them")
	lease := text("lease", "0s", "`DURATION` after which the sandbox ends without a heartbeat; 0s is never")
	given := map[string]string{}
	flags.Func("env", "`NAME=VALUE` for every command; repeatable", func(entry string) error {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is not NAME=VALUE", entry)
		}
		given[key] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return Config{}, &ConfigError{err}
	}
	c := Config{Listen: *listen, UID: *uid, Cwd: *cwd, Spool: *spool}
	var problems []error
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	var err error
	if c.Keys, err = readKeys(*keys, *keysFile); err != nil {
		problems = append(problems, err)
	}
	if c.Lease, err = time.ParseDuration(*lease); err != nil || c.Lease < 0 || c.Lease > longestLease {
		problems = append(problems, fmt.Errorf("--lease: %q is not a duration like 90s", *lease))
	}
	for _, address := range words(*closed) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			problems = append(problems, fmt.Errorf("--closed: %q is not an address by number and a port", address))
		}
		c.Closed = append(c.Closed, at)
	}
	// No flag, which everybody on the machine could read.
	if seed, ok := own["IDENTITY"]; ok {
		if c.Identity, err = wire.ParseSeed(seed); err != nil {
			problems = append(problems, fmt.Errorf("$%sIDENTITY: %w", envPrefix, err))
		}
	}
	if c.UID == "" {
		problems = append(problems, errors.New("--uid: missing"))
	}
	if !filepath.IsAbs(c.Cwd) {
		problems = append(problems, fmt.Errorf("--cwd: %q is not an absolute path", c.Cwd))
	}
	for _, prefix := range words(*hide) {
		maps.DeleteFunc(base, func(name, _ string) bool { return strings.HasPrefix(name, prefix) })
	}
	maps.Copy(base, given)
	c.Env = overlay([]string{"PATH=" + defaultPath, "HOME=" + home()}, base)
	if err := errors.Join(problems...); err != nil {
		return Config{}, &ConfigError{err}
	}
	return c, nil
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func readKeys(text, file string) ([]ed25519.PublicKey, error) {
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--keys-file: %w", err)
		}
		text += " " + string(content)
	}
	keys, err := wire.ParsePublicKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	return keys, nil
}

// home is where programs keep their files when the environment does not say.
func home() string {
	if os.Getuid() == 0 {
		return "/root"
	}
	return "/"
}
