package runner

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/exit"
)

// Mode is how much of a stage one process does.
type Mode string

// The modes. A --shard makes ModeRun write its units and commit nothing.
const (
	ModeRun    Mode = "run"    // all of it
	ModePlan   Mode = "plan"   // fixes the units and says which shards there are
	ModeCommit Mode = "commit" // reads finished units and commits; does none itself
	ModeCheck  Mode = "check"  // says whether all that the stage needs is there; does nothing
)

// Config is the settings that all stages share. Flags fills it, Validate checks it.
type Config struct {
	In         []string // URIs or paths
	Out        string   // URI or path of a dataset, without version
	RunID      string
	Mode       Mode
	Shard      Shard
	Shards     int // of ModePlan
	Workers    int
	Seed       int64
	Deadline   time.Duration // 0 is none
	MaxRetries int           // of a unit, in this process, after its first try
	MaxInfra   Share         // of units that may stay unfinished in a committed version
	DryRun     bool
	LogLevel   string
	Result     string // file for the result as JSON; "" is none
	OutputDir  string // folder for the result as one file a value; "" is none
}

// Default is the configuration without any flag.
func Default() Config {
	return Config{
		RunID: "default", Mode: ModeRun, Shards: 1, Workers: 4,
		MaxRetries: 2, MaxInfra: 0.02, LogLevel: "info",
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.In) == 0 {
		bad("--in: give at least one input")
	}
	for _, in := range c.In {
		if in == "" {
			bad("--in: must not be empty")
		}
	}
	switch {
	case c.Out == "":
		bad("--out: say where the dataset goes, such as out/tasks")
	case strings.Contains(lastPart(c.Out), "@"):
		bad("--out: %q names a version; leave out the @ and what follows", c.Out)
	}
	if c.RunID == "" || len(c.RunID) > 100 || strings.ContainsFunc(c.RunID, notIDRune) {
		bad("--run-id: %q must be 1 to 100 letters, digits, '.', '_' or '-'", c.RunID)
	}
	switch c.Mode {
	case ModeRun:
	case ModePlan, ModeCommit, ModeCheck:
		if c.Shard != (Shard{}) {
			bad("--shard: only goes with --mode run, not %s", c.Mode)
		}
	default:
		bad("--mode: %q is none of run, plan, commit, check", c.Mode)
	}
	if c.Shards < 1 || c.Shards > 256 {
		bad("--shards: %d must be 1 to 256", c.Shards)
	}
	if c.Shards > 1 && c.Mode != ModePlan && c.Mode != ModeCheck {
		bad("--shards: only goes with --mode plan; a shard is run with --shard i/%d", c.Shards)
	}
	if c.Workers < 1 || c.Workers > 4096 {
		bad("--workers: %d must be 1 to 4096", c.Workers)
	}
	if c.Deadline < 0 {
		bad("--deadline: %v must not be negative", c.Deadline)
	}
	if c.MaxRetries < 0 {
		bad("--max-retries: %d must not be negative", c.MaxRetries)
	}
	if !(c.MaxInfra >= 0 && c.MaxInfra <= 1) {
		bad("--max-infra: %v must be 0%% to 100%%", c.MaxInfra)
	}
	if _, err := zerolog.ParseLevel(c.LogLevel); err != nil || c.LogLevel == "" {
		bad("--log-level: %q is none of debug, info, warn, error", c.LogLevel)
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

func lastPart(uri string) string { return uri[strings.LastIndex(uri, "/")+1:] }

func notIDRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

// After is the configuration of a pass over what a stage has just made, r, with more after
// it: its rows are another dataset, and its numbers are not the stage's. Its inputs are the
// result and then the very versions that it was made of: a stage takes hours, in which any
// of them may get a newer one.
func (c Config) After(out string, r Result, more ...string) Config {
	c.In, c.Out = slices.Concat([]string{r.URI}, r.Inputs, more), out
	c.Mode, c.Shards, c.Shard = ModeRun, 1, Shard{}
	c.Result, c.OutputDir = "", ""
	return c
}

// completionIndex is where Kubernetes tells a Pod of an Indexed Job which one it is.
const completionIndex = "JOB_COMPLETION_INDEX"

// Shard is a part of a stage's units: the I-th of N, counted from 1. The zero value is
// all of them. Every unit is in exactly one shard, and neighbours are in the same one,
// so that the rollouts of a task share warm caches.
type Shard struct{ I, N int }

// ParseShard reads "i/n", or "index/n" in a Pod of a Kubernetes Indexed Job, whose
// index counts from 0.
func ParseShard(s string) (Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	if i == "index" {
		index, err := strconv.Atoi(os.Getenv(completionIndex))
		if err != nil {
			return Shard{}, fmt.Errorf("%q: %s is %q: it is for Pods of an Indexed Job, where Kubernetes sets it", s, completionIndex, os.Getenv(completionIndex))
		}
		i = strconv.Itoa(index + 1)
	}
	a, err1 := strconv.Atoi(i)
	b, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || a < 1 || a > b {
		return Shard{}, fmt.Errorf("%q must be i/n with 1 <= i <= n, such as 3/8", s)
	}
	return Shard{a, b}, nil
}

func (s Shard) String() string {
	if s == (Shard{}) {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.I, s.N)
}

// of is the shard's part of units.
func (s Shard) of(units []Unit) []Unit {
	if s == (Shard{}) {
		return units
	}
	return units[len(units)*(s.I-1)/s.N : len(units)*s.I/s.N]
}

// Share is a part of a whole, 0 to 1. Its text is a percentage.
type Share float64

// ParseShare reads "2%" or "0.02".
func ParseShare(s string) (Share, error) {
	num, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(num, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%q must be a share such as 2%% or 0.02", s)
	}
	return Share(f), nil
}

func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 6, 64) + "%" }
