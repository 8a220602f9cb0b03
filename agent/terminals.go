package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"orchard/agent/wire"
)

// maxTerminals bounds what their output takes of the agent's memory.
const maxTerminals = 64

// maxKeep is the longest that a terminal lives without a client.
const maxKeep = 24 * time.Hour

// terminals are those that live, or whose output a client may still come for. Safe for
// concurrent use.
type terminals struct {
	mu   sync.Mutex
	byID map[string]*terminal
}

func newTerminals() *terminals { return &terminals{byID: map[string]*terminal{}} }

func (ts *terminals) get(id string) *terminal {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

// add reports whether there is room for t.
func (ts *terminals) add(t *terminal) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.byID) >= maxTerminals {
		return false
	}
	ts.byID[t.id] = t
	return true
}

func (ts *terminals) remove(t *terminal) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.byID, t.id)
}

// startTerminal starts the program of an init frame. Its errors are why there is no
// terminal at all; a program that is not there is one, and ends with 127.
func (s *Server) startTerminal(f wire.ClientFrame) (*terminal, error) {
	keep := time.Duration(min(max(f.Keep, 0), maxKeep.Seconds()) * float64(time.Second))
	t := newTerminal(s.end, rand.Text(), keep)
	if s.end.Err() != nil {
		return nil, errors.New("the sandbox is ending")
	}
	if !s.terminals.add(t) {
		return nil, fmt.Errorf("there are %d terminals in this sandbox already", maxTerminals)
	}
	err := s.fork(t, f)
	var missing *notRunnable
	switch {
	case errors.As(err, &missing):
		t.refuse(missingText(missing, f.Cmd[0]), missing.code)
	case err != nil:
		s.terminals.remove(t)
		return nil, err
	default:
		s.running.Go(t.run)
	}
	return t, nil
}

// missingText is what the original's terminal shows then; clients look for it.
func missingText(err *notRunnable, name string) string {
	if err.code == 127 {
		return "pty_runner: command not found: " + name + "\r\n"
	}
	return "pty_runner: " + err.text + "\r\n"
}

func (s *Server) fork(t *terminal, f wire.ClientFrame) error {
	env := map[string]string{"TERM": "xterm-256color"} // the client's, not the sandbox's
	for key, value := range f.Env {
		env[key] = value
	}
	req := &wire.ExecRequest{ID: "terminal-" + t.id, Argv: f.Cmd, Env: env, Cwd: f.Cwd}
	if f.LoginShell {
		req.Shell, req.Argv, req.Login = quoted(f.Cmd), nil, true
	}
	plan, err := s.plan(req)
	if err != nil {
		return err
	}
	if plan.script != "" {
		s.spool.remove(plan.script)
		return fmt.Errorf("cmd is longer than %d bytes", longest)
	}
	if f.Cwd != "" {
		if info, err := os.Stat(s.resolve(f.Cwd)); err != nil || !info.IsDir() {
			plan.dir = "/" // as the original has it, not the default folder
		}
	}
	ours, program, err := openTTY(f.Rows, f.Cols)
	if err != nil {
		return err
	}
	fd := program.Fd()
	process, err := s.processes.start(plan.path, plan.argv, &syscall.ProcAttr{
		Dir: plan.dir, Env: plan.env, Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	})
	program.Close()
	if err != nil {
		ours.Close()
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
			return fmt.Errorf("start %s: %s", filepath.Base(plan.path), describe(err))
		}
		return &notRunnable{126, fmt.Sprintf("%s: %s", plan.argv[0], describe(err))}
	}
	t.tty, t.process = ours, process
	return nil
}

// quoted is argv as a shell reads it back.
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// checkInit says what is wrong with an init frame, and puts in what it leaves out.
func checkInit(f *wire.ClientFrame) error {
	if len(f.Cmd) == 0 || f.Cmd[0] == "" {
		return errors.New("cmd must begin with a program")
	}
	for key, value := range f.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %.100q is not a variable's name, or its value has a NUL byte", key)
		}
	}
	if strings.ContainsRune(strings.Join(f.Cmd, "")+f.Cwd, 0) {
		return errors.New("cmd, cwd: a NUL byte cannot be passed to a program")
	}
	if f.Rows <= 0 {
		f.Rows = 24
	}
	if f.Cols <= 0 {
		f.Cols = 80
	}
	return nil
}
