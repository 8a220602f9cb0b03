package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// longest is the size from which a shell command goes through a file: the kernel
// takes no argument of 128 KiB or more.
const longest = 100 << 10

// maxTimeout keeps "never" out of the timeouts.
const maxTimeout = 30 * 24 * time.Hour

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// check says what is wrong with a request, naming the field.
func check(r *wire.ExecRequest) error {
	most := maxTimeout.Milliseconds()
	switch {
	case !validID.MatchString(r.ID):
		return fmt.Errorf("id: %.140q is not 1 to 128 of A-Z a-z 0-9 . _ -", r.ID)
	case (r.Shell == "") == (len(r.Argv) == 0):
		return errors.New("shell, argv: exactly one of them must be given")
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return errors.New("argv: the program's name is empty")
	case r.Login && r.Shell == "":
		return errors.New("login: only a shell command can have a login shell")
	case r.TimeoutMS < 1 || r.TimeoutMS > most:
		return fmt.Errorf("timeout_ms: %d is not within 1 and %d", r.TimeoutMS, most)
	case r.IdleTimeoutMS < 0 || r.IdleTimeoutMS > most:
		return fmt.Errorf("idle_timeout_ms: %d is not within 0 and %d", r.IdleTimeoutMS, most)
	case r.OutputCap < 0:
		return fmt.Errorf("output_cap: %d is negative", r.OutputCap)
	}
	for field, text := range map[string]string{"shell": r.Shell, "argv": strings.Join(r.Argv, " "), "cwd": r.Cwd} {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("%s: a NUL byte cannot be passed to a program", field)
		}
	}
	return checkEnv(r.Env)
}

// checkEnv says what cannot be a program's environment.
func checkEnv(env map[string]string) error {
	for key, value := range env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %.100q is not a variable's name, or its value has a NUL byte", key)
		}
	}
	return nil
}

// shown is the command as people see it.
func shown(r *wire.ExecRequest) string {
	if r.Shell != "" {
		return r.Shell
	}
	return strings.Join(r.Argv, " ")
}

// program is what a request comes to in this sandbox.
type program struct {
	path   string
	argv   []string
	env    []string
	dir    string
	script string // a file in the spool folder, to be removed at the end; "" for none
	noisy  bool   // its stderr starts with what noiseFilter drops
}

// notRunnable is why a command cannot start: exit code 127 not found, 126 not executable.
type notRunnable struct {
	code int
	text string
}

func (e *notRunnable) Error() string { return e.text }

// plan finds the program for r. Its errors are *notRunnable.
func (s *Server) plan(r *wire.ExecRequest) (*program, error) {
	env, _ := s.claim.base()
	env = overlay(env, r.Env)
	p := &program{dir: s.workdir(r.Cwd), env: env}
	search := lookup{dir: p.dir, path: valueOf(env, "PATH")}
	if r.Shell == "" {
		path, err := search.find(r.Argv[0])
		if err != nil {
			return nil, err
		}
		p.path, p.argv = path, r.Argv
		return p, nil
	}
	shell, err := search.shell()
	if err != nil {
		return nil, err
	}
	text := r.Shell
	if len(text) > longest {
		p.script = r.ID + ".sh"
		if text, err = s.script(p.script, text); err != nil {
			return nil, err
		}
	}
	p.path = shell
	switch name := filepath.Base(shell); {
	case r.Login && name == "bash":
		p.noisy = true
		p.argv = []string{name, "--login", "-i", "-c", "if [ -f ~/.bashrc ]; then . ~/.bashrc; fi; " + text}
	case r.Login:
		p.argv = []string{name, "-l", "-c", text}
	default:
		p.argv = []string{name, "-c", text}
	}
	return p, nil
}

// script writes a long command to the file name and returns the command that reads
// it: in the same shell, with the same $0, and with stdin left alone.
func (s *Server) script(name, text string) (string, error) {
	f, err := s.spool.create(name)
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.spool.remove(name)
		return "", &notRunnable{126, fmt.Sprintf("a command of %d bytes goes through a file, and that cannot be written: %v", len(text), err)}
	}
	return ". '" + strings.ReplaceAll(s.spool.path(name), "'", `'\''`) + "'", nil
}

// workdir is the folder a command runs in: what was asked for, the default, or "/".
func (s *Server) workdir(asked string) string {
	_, cwd := s.claim.base()
	for _, dir := range []string{s.resolve(asked), cwd} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return "/"
}

// resolve makes path absolute: relative ones start at the default working folder.
func (s *Server) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	_, cwd := s.claim.base()
	return filepath.Join(cwd, path)
}

// overlay lays over onto base, sorted by name: "A=1" entries with each name once.
func overlay(base []string, over map[string]string) []string {
	merged := map[string]string{}
	for _, entry := range base {
		if key, value, ok := strings.Cut(entry, "="); ok {
			merged[key] = value
		}
	}
	for key, value := range over {
		merged[key] = value
	}
	env := make([]string, 0, len(merged))
	for key, value := range merged {
		env = append(env, key+"="+value)
	}
	slices.Sort(env)
	return env
}

func valueOf(env []string, name string) string {
	for _, entry := range env {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

// lookup finds programs as a command in folder dir with that PATH would.
type lookup struct{ dir, path string }

// find returns the file to execute for name.
func (l lookup) find(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if err := l.executable(name); err != nil {
			return "", err
		}
		return name, nil
	}
	var denied *notRunnable
	for _, folder := range filepath.SplitList(l.path) {
		file := filepath.Join(folder, name)
		if folder == "" || !filepath.IsAbs(folder) {
			file = "./" + file
		}
		err := l.executable(file)
		if err == nil {
			return file, nil
		}
		if err.code == 126 {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &notRunnable{127, fmt.Sprintf("%s: command not found in PATH %q", name, l.path)}
}

// executable returns nil or why file cannot be run.
func (l lookup) executable(file string) *notRunnable {
	at := file
	if !filepath.IsAbs(at) {
		at = filepath.Join(l.dir, at)
	}
	info, err := os.Stat(at)
	switch {
	case err != nil && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ELOOP)):
		return &notRunnable{126, file + ": " + describe(err)}
	case err != nil:
		return &notRunnable{127, file + ": " + describe(err)}
	case info.IsDir():
		return &notRunnable{126, file + ": is a directory (EISDIR)"}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, at, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &notRunnable{126, file + ": " + describe(err)}
	}
	return nil
}

// shell finds bash, else sh, also where a command's PATH does not lead.
func (l lookup) shell() (string, error) {
	for _, name := range []string{"bash", "sh"} {
		for _, search := range []lookup{l, {dir: "/", path: defaultPath}} {
			if path, err := search.find(name); err == nil {
				return path, nil
			}
		}
	}
	return "", &notRunnable{127, "this sandbox has neither bash nor sh: give the command as argv"}
}
