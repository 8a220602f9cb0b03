package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/logx"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local/cell"
)

// exitLease is what an agent exits with when its lease ran out.
const exitLease = 44

// box is one sandbox from its acceptance to an hour after its end.
type box struct {
	r      *Runtime
	dir    string
	limits limits
	cancel context.CancelFunc
	ready  chan struct{} // closed when the agent answers
	ended  chan struct{} // closed when everything is gone

	mu     sync.Mutex
	state  control.State
	reason string // why it shall end, or has; the first stays
	detail string
	client *http.Transport // nil until ready
}

// snapshot is the state now.
func (b *box) snapshot() control.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// end begins the end; of several reasons the first counts.
func (b *box) end(reason, detail string) {
	b.mu.Lock()
	if b.reason == "" {
		b.reason, b.detail = reason, detail
	}
	b.mu.Unlock()
	b.cancel()
}

func (b *box) waitsFor(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Message = what
}

func (b *box) fs() string     { return filepath.Join(b.dir, "fs") }
func (b *box) log() string    { return filepath.Join(b.dir, "agent.log") }
func (b *box) socket() string { return filepath.Join("boxes", b.state.UID, "s") }

// run is the sandbox's whole life. It returns when nothing of it is left but its state.
func (b *box) run(ctx context.Context) {
	log := zerolog.Ctx(ctx).With().Str(logx.Sandbox, b.state.Spec.ID).Logger()
	stop := b.watchClock(ctx)
	err := b.live(ctx)
	stop()
	reason, detail := b.why(err)
	if err := removeTree(b.dir); err != nil {
		log.Error().Err(err).Msg("remove the folder of a sandbox")
	}
	b.mu.Lock()
	b.state.Phase, b.state.Reason, b.state.Message, b.state.Ended = control.Ended, reason, detail, time.Now()
	client := b.client
	b.mu.Unlock()
	close(b.ended)
	if client != nil {
		client.CloseIdleConnections()
	}
	log.Info().Str("reason", reason).Str("detail", detail).Msg("sandbox ended")
}

// watchClock ends the box when it is not ready or not done in time.
func (b *box) watchClock(ctx context.Context) (stop func()) {
	spec := b.state.Spec
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		var never <-chan time.Time
		tooLate, tooLong := never, never
		if spec.ReadyTimeout > 0 {
			t := time.NewTimer(spec.ReadyTimeout)
			defer t.Stop()
			tooLate = t.C
		}
		if spec.Lifetime > 0 {
			t := time.NewTimer(spec.Lifetime)
			defer t.Stop()
			tooLong = t.C
		}
		ready := b.ready
		for {
			select {
			case <-ctx.Done():
				return
			case <-ready:
				ready, tooLate = nil, never
			case <-tooLate:
				b.end(control.ReasonNotReady, fmt.Sprintf("not ready after %v, while %s", spec.ReadyTimeout, b.snapshot().Message))
				return
			case <-tooLong:
				b.end(control.ReasonLifetime, fmt.Sprintf("its lifetime of %v is over", spec.Lifetime))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// why is the reason of the end: what was asked for, or what live found.
func (b *box) why(err error) (reason, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason != "" {
		return b.reason, b.detail
	}
	var refused *sandbox.Refused
	if errors.As(err, &refused) {
		return control.ReasonRefused, refused.Reason
	}
	var over *ending
	if errors.As(err, &over) {
		return over.reason, over.detail
	}
	return reasonFailed, err.Error()
}

// The reasons that only this runtime knows.
const (
	reasonFailed = "failed"     // it could not be made; another try may work
	reasonAgent  = "agent_died" // the agent ended and did not say why
)

// ending is how a box that was ready ended by itself.
type ending struct{ reason, detail string }

func (e *ending) Error() string { return e.detail }

// live makes the sandbox and returns, when nothing of it runs any more, why.
func (b *box) live(ctx context.Context) error {
	b.waitsFor("the image is unpacked")
	root, err := b.r.rootfs(ctx, b.state.Spec)
	if err != nil {
		return err
	}
	b.waitsFor("namespaces and mounts are made")
	ids, err := b.r.ids.take()
	if err != nil {
		return err
	}
	defer b.r.ids.give(ids)
	if err := b.makeDirs(root, ids); err != nil {
		return err
	}
	listener, err := b.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	stderr, err := os.OpenFile(b.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	group, err := b.r.newCgroup(b.state.UID, b.limits)
	if err != nil {
		return err
	}
	defer b.removeCgroup(ctx, group)
	p, err := b.r.launch(listener, stderr, ids)
	// Only the sandbox may keep it, or a request to a dead agent would wait for ever.
	listener.Close()
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	kill := context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })
	defer kill()
	go func() { exited <- p.cmd.Wait() }()
	err = b.start(ctx, p, root, ids, group)
	if err != nil {
		p.cmd.Process.Kill()
		<-exited
		return b.explain(err)
	}
	return b.untilExit(exited, group)
}

// start takes a launched process to ready.
func (b *box) start(ctx context.Context, p *process, root *rootfs, ids idMap, group *cgroup) error {
	if group != nil {
		if err := group.add(p.cmd.Process.Pid); err != nil {
			p.conn.Close()
			return fmt.Errorf("put the sandbox into its cgroup: %w", err)
		}
	}
	if err := p.configure(b.r.config(b, root), ids); err != nil {
		if reason, ok := strings.CutPrefix(err.Error(), cell.Refusal); ok && b.state.Spec.Image != HostImage {
			return &sandbox.Refused{Image: b.state.Spec.Image, Reason: "its files do not make a sandbox: " + reason}
		}
		return err
	}
	b.waitsFor("the agent answers")
	client := b.r.transport(b.socket())
	if err := healthy(ctx, client); err != nil {
		client.CloseIdleConnections()
		return err
	}
	b.mu.Lock()
	b.client = client
	b.state.Phase, b.state.Ready, b.state.Message = control.Ready, time.Now(), ""
	b.mu.Unlock()
	close(b.ready)
	return nil
}

// untilExit waits for the agent's end and says what it was.
func (b *box) untilExit(exited <-chan error, group *cgroup) error {
	outOfMemory := &ending{control.ReasonOOMKilled, fmt.Sprintf("out of memory (limit %s)", b.state.Spec.Memory)}
	if group != nil {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			if group.waitOOM() {
				b.end(outOfMemory.reason, outOfMemory.detail)
			}
		}()
		defer func() { group.unwatch(); <-watched }()
	}
	err := <-exited
	var status interface{ ExitCode() int }
	switch {
	case group != nil && group.ranOut():
		return outOfMemory
	case errors.As(err, &status) && status.ExitCode() == exitLease:
		return &ending{control.ReasonLease, fmt.Sprintf("no heartbeat for %v", b.state.Spec.Lease)}
	case err == nil:
		return &ending{reasonAgent, "the agent was told to end, by its shutdown route or by a signal from inside"}
	}
	return &ending{reasonAgent, b.explain(err).Error()}
}

// explain adds the agent's own last words.
func (b *box) explain(err error) error {
	words, readErr := os.ReadFile(b.log())
	if readErr != nil || len(words) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, tail(words))
}
