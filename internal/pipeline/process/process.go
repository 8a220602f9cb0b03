// Package process runs a pipeline's container steps as processes of one executable.
//
// A step gets its own process group, its own output folder (ORCHARD_OUTPUT_DIR) and
// progress file (ARGO_PROGRESS_FILE), and its output in a log. It never outlives the
// runner: told to stop it has Grace to save its work, and if the runner is killed the
// kernel kills the step.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"orchard/internal/exit"
	"orchard/internal/pipeline"
)

// Grace is how long a step may take to end after SIGTERM: stages end within 20 s.
const Grace = 25 * time.Second

// Runner starts steps.
type Runner struct {
	Executable string   // this machine's orchard
	Env        []string // beside the caller's environment and the step's own
	// Dir makes the folder of one attempt, with an out/ in it.
	Dir func(node string, attempt int) (string, error)
	// Started is told the folder before the step starts; it may be nil.
	Started func(node, dir string)
}

// Step runs one step to its end. An error means that we do not know what it did.
func (r *Runner) Step(ctx context.Context, s pipeline.Step) (pipeline.StepResult, error) {
	dir, err := r.Dir(s.Node, s.Attempt)
	if err != nil {
		return pipeline.StepResult{}, exit.With(exit.Gone, fmt.Errorf("step %s: %w", s.Node, err))
	}
	if r.Started != nil {
		r.Started(s.Node, dir)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return pipeline.StepResult{}, exit.With(exit.Gone, fmt.Errorf("step %s: %w", s.Node, err))
	}
	defer os.RemoveAll(tmp)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return pipeline.StepResult{}, exit.With(exit.Gone, fmt.Errorf("step %s: %w", s.Node, err))
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, r.Executable, s.Args...)
	cmd.Env = r.environment(s, dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = Grace
	err = run(cmd)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // told to stop, it ended well all the same
	}
	res := pipeline.StepResult{Outputs: map[string]string{}}
	if err != nil {
		res.Message = lastWords(log.Name())
		var failed *exec.ExitError
		if !errors.As(err, &failed) {
			return res, exit.With(exit.Config, fmt.Errorf("start %s: %w", r.Executable, err))
		}
		if res.ExitCode = failed.ExitCode(); res.ExitCode < 0 {
			status := failed.Sys().(syscall.WaitStatus)
			res.ExitCode = 128 + int(status.Signal())
			res.Message = strings.TrimSpace(fmt.Sprintf("killed by %s. %s", status.Signal(), res.Message))
		}
		return res, nil
	}
	for name, path := range s.Outputs {
		b, err := os.ReadFile(filepath.Join(dir, "out", filepath.Base(path)))
		if err == nil {
			res.Outputs[name] = strings.TrimSpace(string(b))
		}
	}
	return res, nil
}

func (r *Runner) environment(s pipeline.Step, dir string) []string {
	env := append(os.Environ(), r.Env...)
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	// Paths of a Pod mean others here.
	tmp := os.Getenv("TMPDIR")
	if tmp == "" { // what a killed step leaves goes with its folder
		tmp = filepath.Join(dir, "tmp")
	}
	return append(env,
		"TMPDIR="+tmp,
		"ORCHARD_TERMINATION_LOG=",
		"ORCHARD_OUTPUT_DIR="+filepath.Join(dir, "out"),
		"ARGO_PROGRESS_FILE="+filepath.Join(dir, "progress"))
}

// run starts and awaits cmd on one thread: the kernel's parent-death signal follows
// the thread that started the child, not the process.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// lastWords is what a failed program said last: its error, which begins with its name
// and may have several lines, or else the last line of the log.
func lastWords(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, 2) // the size was just read
	}
	buf := make([]byte, most)
	n, _ := f.Read(buf)
	text := "\n" + strings.ToValidUTF8(string(bytes.TrimSpace(buf[:n])), "\uFFFD")
	if i := strings.LastIndex(text, "\norchard: "); i >= 0 {
		return text[i+len("\norchard: "):]
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
