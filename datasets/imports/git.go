package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"orchard/internal/exit"
)

// git runs git commands that no configuration of the user, the machine or the
// repository changes, as far as git lets us.
type git struct {
	path   string
	config string   // the only configuration file
	env    []string // of every command
}

// gitConfig is what all commands run with. Sources are read only, so their owner does
// not matter; a fetch may ask for any commit.
const gitConfig = `[safe]
	directory = *
[uploadpack]
	allowAnySHA1InWant = true
[init]
	defaultBranch = main
[core]
	hooksPath = /dev/null
	fsmonitor = false
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
[protocol "file"]
	allow = always
`

// newGit prepares git in folder, which must exist and be private.
func newGit(folder string) (*git, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, exit.Configf("a task names a repository, and packing it needs git on PATH: %w", err)
	}
	config := filepath.Join(folder, "gitconfig")
	if err := os.WriteFile(config, []byte(gitConfig), 0o600); err != nil {
		return nil, fmt.Errorf("prepare git: %w", err)
	}
	return &git{path: path, config: config, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "LC_ALL=C", "TZ=UTC", "TMPDIR=" + folder,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
	}}, nil
}

// gitError is a git command that ended with an error: what it was, and its last words.
type gitError struct {
	verb, words string
	err         error
}

func (e *gitError) Error() string {
	if e.words == "" {
		return fmt.Sprintf("git %s: %v", e.verb, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.verb, e.words)
}

func (e *gitError) Unwrap() error { return e.err }

// run runs git in the repository at dir and returns what it printed. stdin may be nil.
func (g *git) run(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, dir, stdin, &out, args...)
	return strings.TrimSpace(out.String()), err
}

func (g *git) stream(ctx context.Context, dir string, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, g.path, args...)
	var words bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, stdout, &words
	// git looks no higher than dir itself for a repository.
	cmd.Env = append(g.env[:len(g.env):len(g.env)], "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return fmt.Errorf("run git %s: %w", args[0], err)
	}
	return &gitError{verb: args[0], words: readable(lastLine(words.String())), err: err}
}

// lastLine is the last thing that git said, which is why it stopped.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if l := strings.TrimSpace(lines[i]); strings.HasPrefix(l, "fatal:") || strings.HasPrefix(l, "error:") {
			return strings.TrimSpace(strings.SplitN(l, ":", 2)[1])
		}
	}
	return lines[len(lines)-1]
}

// readable is what git said as a message can hold it: git repeats what it read, which
// may be a binary file.
func readable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return shown(s)
		}
	}
	return s
}
