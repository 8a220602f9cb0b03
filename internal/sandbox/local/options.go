package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"orchard/internal/exit"
)

// AgentVariable names the agent's binary, before all other places.
const AgentVariable = "ORCHARD_AGENT"

// HostImage is the name of the image that is this machine's own programs.
const HostImage = "host"

// SystemPath is where sandboxes look for programs, after Go's and those of tools.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Options are an operator's choices.
type Options struct {
	// StateDir holds everything that the runtime keeps; made when absent. Its file system
	// must carry overlays, which overlayfs itself (a container's own root) does not.
	StateDir string
	// CacheDir holds what several state folders may share: unpacked images and warm Go
	// caches. "" is StateDir/cache.
	CacheDir string
	// AgentPath is the static orchard-agent; "" lets FindAgent look for it.
	AgentPath string
	// Tools are folders that "host" sandboxes see besides the system's own, read-only at
	// the same path; their bin folder, or they themselves without one, come into PATH.
	Tools []string
	// Cold starts sandboxes of "host" with an empty Go build cache where there is no warm
	// one, instead of building it first, which takes about a minute.
	Cold bool
	// Processes is how many processes and threads a sandbox may have; 0 is 4096.
	Processes int
}

const defaultProcesses = 4096

// DefaultCache is where this user's programs share images and Go caches. Without a home
// it is below the folder for temporary files.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("orchard-%d", os.Getuid()))
	}
	return filepath.Join(dir, "orchard")
}

// FindAgent is where orchard-agent is: $ORCHARD_AGENT, beside this executable, or on
// PATH. The error says how to get one.
func FindAgent() (string, error) {
	if path := os.Getenv(AgentVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", exit.Configf("$%s: %w", AgentVariable, err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "orchard-agent")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath("orchard-agent")
	if err != nil {
		return "", exit.Configf("there is no orchard-agent in $%s, beside this program or on PATH; build it with: CGO_ENABLED=0 go build ./cmd/orchard-agent", AgentVariable)
	}
	return path, nil
}

// validate names everything that is wrong, and resolves the links in Tools.
func (o *Options) validate() error {
	var errs []error
	if o.StateDir == "" {
		errs = append(errs, errors.New("no state folder is given"))
	}
	if o.Processes < 0 {
		errs = append(errs, fmt.Errorf("%d processes for a sandbox", o.Processes))
	}
	given := o.Tools
	o.Tools = nil
	for _, dir := range given {
		abs, err := filepath.Abs(dir)
		if err == nil {
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--tool %s: %w", dir, err))
			continue
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() || abs == "/" {
			errs = append(errs, fmt.Errorf("--tool %s: not a folder below /", dir))
		}
		o.Tools = append(o.Tools, abs)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// defaults fills in what is not given and makes paths absolute.
func (o *Options) defaults() error {
	var err error
	if o.StateDir, err = filepath.Abs(o.StateDir); err != nil {
		return err
	}
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(o.StateDir, "cache")
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return err
	}
	if o.Processes == 0 {
		o.Processes = defaultProcesses
	}
	if o.AgentPath == "" {
		o.AgentPath, err = FindAgent()
	}
	return err
}
