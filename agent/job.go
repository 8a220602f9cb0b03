package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"orchard/agent/wire"
)

// killPatience is how long a job waits for killed processes to die: one that hangs in
// the kernel must not stop the queue for good.
const killPatience = 10 * time.Second

// job is one command.
type job struct {
	print          [32]byte // of the command: equal ones attach, others conflict
	idempotencyKey string
	dedupKey       string
	concurrent     bool
	cap            int64 // bytes of each stream in an answer
	stdout         *spool
	stderr         *spool        // stays empty when merged into stdout
	done           chan struct{} // closed when nothing below mu changes any more but deliveries
	started        chan struct{} // closed when process is set; a job that never started has only done
	stop           chan struct{} // closed by kill
	input          *input        // nil: stdin does not stay open

	holds        int // guarded by the table: answers being written, the output must stay
	memory, disk int64

	mu         sync.Mutex
	req        *wire.ExecRequest // nil once it runs
	view       wire.Job          // all but the output
	stopping   bool
	delivered  bool            // the answer has reached who asked
	deliveries []chan struct{} // under way
	process    process
}

func newJob(r *wire.ExecRequest, print [32]byte, spool *spoolDir, now time.Time) *job {
	most := r.OutputCap
	if most == 0 {
		most = wire.DefaultOutputCap
	}
	var in *input
	if r.StdinOpen {
		in = newInput()
	}
	return &job{
		print: print, idempotencyKey: r.IdempotencyKey, dedupKey: r.DedupKey,
		concurrent: r.Concurrent, cap: most, req: r, input: in,
		stdout: newSpool(spool, r.ID+".stdout", most), stderr: newSpool(spool, r.ID+".stderr", most),
		done: make(chan struct{}), started: make(chan struct{}), stop: make(chan struct{}),
		view: wire.Job{ID: r.ID, Command: shown(r), State: wire.Queued, CreatedUS: now.UnixMicro()},
	}
}

// snapshot is j without its output.
func (j *job) snapshot() wire.Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	view := j.view
	view.AckPending = j.dedupKey != "" && !j.delivered
	view.Stdout.Bytes, view.Stderr.Bytes = j.stdout.printed(), j.stderr.printed()
	return view
}

// repeatable reports whether an equal request is still taken for the same one.
func (j *job) repeatable(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.delivered && (j.view.EndedUS == 0 || now.Sub(time.UnixMicro(j.view.EndedUS)) < wire.DedupWindowSeconds*time.Second)
}

// kill asks a job to end; it may not have started.
func (j *job) kill() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stopping {
		j.stopping = true
		close(j.stop)
	}
}

// ended reports whether nothing of j changes any more.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// run takes a job from queued to its end.
func (s *Server) run(ctx context.Context, j *job) {
	defer close(j.done)
	req := j.begin()
	plan, err := s.plan(req)
	if err == nil {
		if plan.script != "" {
			defer s.spool.remove(plan.script)
		}
		err = s.execute(ctx, j, req, plan)
	}
	if err != nil {
		code := 126
		var known *notRunnable
		if errors.As(err, &known) {
			code = known.code
		}
		_, _ = fmt.Fprintln(j.stderr, "orchard-agent:", err)
		j.finish(wire.Failed, code, wire.ReasonSpawn, err.Error())
	}
}

// begin marks j as running and gives up its request, which may be large.
func (j *job) begin() *wire.ExecRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	req := j.req
	j.req = nil
	j.view.State = wire.Running
	j.view.StartedUS = time.Now().UnixMicro()
	return req
}

func (j *job) finish(state string, code int, reason, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view.State, j.view.ExitCode, j.view.Reason, j.view.Error = state, &code, reason, text
	j.view.EndedUS = time.Now().UnixMicro()
}

// execute starts the program, waits for its end or ends it, and finishes j. An error
// means that it never started.
func (s *Server) execute(ctx context.Context, j *job, req *wire.ExecRequest, plan *program) error {
	files, err := s.openStdio(j, req, plan.noisy)
	if err != nil {
		return err
	}
	p, err := s.processes.start(plan.path, plan.argv, &syscall.ProcAttr{
		Dir: plan.dir, Env: plan.env, Files: files.fds(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	files.closeGiven()
	if err != nil {
		files.seal()
		if errors.Is(err, errEnding) {
			j.finish(wire.Failed, -int(syscall.SIGKILL), wire.ReasonEnded, err.Error())
			return nil
		}
		return &notRunnable{126, fmt.Sprintf("%s: %s", plan.argv[0], describe(err))}
	}
	j.mu.Lock()
	j.process = p
	j.mu.Unlock()
	close(j.started)

	status, reason, text := s.await(ctx, j, req, p)
	if reason == "" && status != 0 && s.memory.ranOut() {
		reason, text = wire.ReasonEnded, "the sandbox ran out of memory"
	}
	files.seal()
	switch reason {
	case "":
		j.finish(wire.Done, exitCode(status), "", "")
	case wire.ReasonKilled, wire.ReasonEnded:
		j.finish(wire.Done, -int(syscall.SIGKILL), reason, text)
	default:
		j.finish(wire.Done, 124, reason, text)
	}
	return nil
}

// await returns when the process has ended, by itself or because of reason.
func (s *Server) await(ctx context.Context, j *job, req *wire.ExecRequest, p process) (status syscall.WaitStatus, reason, text string) {
	limit := time.Duration(req.TimeoutMS) * time.Millisecond
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	idle := time.Duration(req.IdleTimeoutMS) * time.Millisecond
	var silent <-chan time.Time
	if idle > 0 {
		timer := time.NewTimer(idle)
		defer timer.Stop()
		silent = timer.C
	}
	for reason == "" {
		select {
		case status = <-p.exit:
			return status, "", ""
		case <-deadline.C:
			reason, text = wire.ReasonTimeout, fmt.Sprintf("timed out after %v and was killed", limit)
		case <-j.stop:
			reason, text = wire.ReasonKilled, "killed on request"
		case <-ctx.Done():
			reason, text = wire.ReasonEnded, "the sandbox ended"
		case <-silent:
			rest := idle - time.Since(j.lastOutput())
			if rest > 0 {
				silent = time.After(rest)
				continue
			}
			reason, text = wire.ReasonIdleTimeout, fmt.Sprintf("printed nothing for %v and was killed", idle)
		}
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	if reason != wire.ReasonEnded { // which kills all at once
		p.kill(patience, p.pid)
	}
	select {
	case <-p.exit:
	case <-patience.Done():
		text += ", but hangs in the kernel"
	}
	return status, reason, text
}

func (j *job) lastOutput() time.Time {
	last := j.stdout.lastWrite()
	if other := j.stderr.lastWrite(); other.After(last) {
		return other
	}
	return last
}

// exitCode is N of exit(N), -N for signal N.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}
