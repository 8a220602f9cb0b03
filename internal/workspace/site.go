package workspace

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"sort"
	"strconv"
	"strings"
	"time"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// scripts are plain POSIX shell and git, so that they run in any image that has git,
// and over a copy on this machine for an image that has none.
//
//go:embed scripts/*.sh
var scripts embed.FS

// The exit codes by which a script says what is wrong; stderr has the words.
const (
	exitTask  = 90 // the task's fault
	exitNoGit = 91 // this machine has no git
	exitApply = 92 // no method applies the patch
)

var errNoGit = errors.New("no git in the sandbox")

const (
	scriptTimeout     = 10 * time.Minute
	preCommandTimeout = 30 * time.Minute
	maxWords          = 4 << 10 // of what a tool said, in an error
)

// site is a task's place in one sandbox.
type site struct {
	sb      sandbox.Sandbox
	task    record.Task
	private string // folder of our own, outside the working tree
}

// at finds the private folder by sandbox and task alone, so that a diff can be taken
// by a process that did not prepare the sandbox.
func at(sb sandbox.Sandbox, task record.Task) site {
	return site{sb: sb, task: task, private: "/var/tmp/." + seal.ID("workspace", sb.ID(), task.TaskID)[:16]}
}

func (s site) invalid(format string, a ...any) error {
	return &TaskError{Task: s.task.TaskID, Reason: fmt.Sprintf(format, a...)}
}

// reset makes the private folder new and empty.
func (s site) reset(ctx context.Context) error {
	dir := quote(s.private)
	_, err := s.must(ctx, "make its private folder", sandbox.Command{
		Shell: "rm -rf " + dir + " && mkdir -p " + dir + " && chmod 700 " + dir, Timeout: scriptTimeout,
	})
	return err
}

// must runs a command of ours that has no reason to fail.
func (s site) must(ctx context.Context, what string, c sandbox.Command) (sandbox.Result, error) {
	res, err := s.sb.Exec(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", res.ExitCode, words(res))
	}
	if err != nil {
		return res, fmt.Errorf("sandbox %s, task %s: %s: %w", s.sb.ID(), s.task.TaskID, what, err)
	}
	return res, nil
}

// script runs one of ours in the sandbox and turns its exit code into an error.
func (s site) script(ctx context.Context, name string, vars map[string]string, args ...string) error {
	_, err := s.output(ctx, name, vars, args...)
	return err
}

// output is script, and what it printed.
func (s site) output(ctx context.Context, name string, vars map[string]string, args ...string) ([]byte, error) {
	res, err := s.sb.Exec(ctx, sandbox.Command{Shell: commandLine(s.vars(vars), name, args), Timeout: scriptTimeout})
	if err != nil {
		return nil, fmt.Errorf("sandbox %s, task %s: %s: %w", s.sb.ID(), s.task.TaskID, name, err)
	}
	switch {
	case res.ExitCode == 0:
		return res.Stdout, nil
	case diskFull(res.Stderr):
		return nil, fmt.Errorf("sandbox %s, task %s: %s: disk full: %s", s.sb.ID(), s.task.TaskID, name, words(res))
	case res.ExitCode == exitTask:
		return nil, s.invalid("%s", words(res))
	case res.ExitCode == exitNoGit:
		return nil, errNoGit
	case res.ExitCode == exitApply:
		return nil, &ApplyError{Words: words(res)}
	}
	return nil, fmt.Errorf("sandbox %s, task %s: %s: exit code %d: %s", s.sb.ID(), s.task.TaskID, name, res.ExitCode, words(res))
}

// vars adds what every script reads.
func (s site) vars(more map[string]string) map[string]string {
	v := map[string]string{"W": s.task.Workdir, "P": s.private, "B": s.task.BaseCommit}
	maps.Copy(v, more)
	return v
}

// commandLine runs a script with an environment of our making: neither GIT_ variables
// of the image nor a configuration in its home reach git.
func commandLine(vars map[string]string, name string, args []string) string {
	body, err := scripts.ReadFile("scripts/" + name)
	if err != nil {
		panic(err) // embedded, so a misspelt name
	}
	common, err := scripts.ReadFile("scripts/common.sh")
	if err != nil {
		panic(err)
	}
	vars["MAX_KB"] = strconv.Itoa(maxFile >> 10)
	names := make([]string, 0, len(vars))
	for k := range vars {
		names = append(names, k)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString(`exec env -i PATH="$PATH" H="${HOME:-/}" LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 HOME=` + quote(vars["P"]))
	for _, k := range names {
		b.WriteString(" " + k + "=" + quote(vars[k]))
	}
	b.WriteString(" sh -c " + quote(string(common)+string(body)))
	b.WriteString(" " + name)
	for _, a := range args {
		b.WriteString(" " + quote(a))
	}
	return b.String()
}

// quote makes a string one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// words is what a command said, for an error: its end, which has the reason.
func words(res sandbox.Result) string {
	out := bytes.TrimSpace(append(append([]byte{}, res.Stdout...), res.Stderr...))
	if res.TimedOut {
		out = append(out, " (it did not end in time)"...)
	}
	return tail(out)
}

func tail(out []byte) string {
	if len(out) > maxWords {
		out = append([]byte("… "), out[len(out)-maxWords:]...)
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

func diskFull(stderr []byte) bool { return bytes.Contains(stderr, []byte("No space left on device")) }
