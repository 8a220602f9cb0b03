// Package plain is a control.Runtime for tests of the service: real agents as plain
// processes on this machine, with no isolation at all, whose starts and ends a test
// can hold and cause. It runs where the kernel gives no namespaces.
package plain

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// Runtime runs agents as processes. Safe for concurrent use.
type Runtime struct {
	agent string
	dir   string
	key   ed25519.PrivateKey
	pub   string

	mu      sync.Mutex
	held    map[string]bool
	boxes   map[string]*box
	starts  int
	workers sync.WaitGroup
}

var _ control.Runtime = (*Runtime)(nil)
var _ control.Resourcer = (*Runtime)(nil)

type box struct {
	state   control.State
	changed chan struct{} // closed at the next change of state
	cmd     *exec.Cmd
	http    *http.Transport
	socket  string
}

// New is a runtime that ends with the test.
func New(t testing.TB) *Runtime {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Unix socket paths are short: t.TempDir is too long.
	dir, err := os.MkdirTemp("", "plain")
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{
		agent: agentbin.Path(t), dir: dir, key: key, pub: wire.FormatPublicKey(pub),
		held: map[string]bool{}, boxes: map[string]*box{},
	}
	t.Cleanup(func() {
		r.mu.Lock()
		var ids []string
		for id := range r.boxes {
			ids = append(ids, id)
		}
		r.mu.Unlock()
		for _, id := range ids {
			r.End(id, control.ReasonShutdown, "")
		}
		r.workers.Wait()
		os.RemoveAll(dir)
	})
	return r
}

// Hold keeps a sandbox of this id, to be started later, pending.
func (r *Runtime) Hold(id string) { r.mu.Lock(); defer r.mu.Unlock(); r.held[id] = true }

// Starts is how many sandboxes were ever started.
func (r *Runtime) Starts() int { r.mu.Lock(); defer r.mu.Unlock(); return r.starts }

// End ends a sandbox as a runtime finds that it has ended.
func (r *Runtime) End(id, reason, message string) {
	r.mu.Lock()
	b := r.boxes[id]
	r.mu.Unlock()
	if b != nil {
		r.end(b, reason, message)
	}
}

// end ends this box, and no later one of its id.
func (r *Runtime) end(b *box, reason, message string) {
	r.mu.Lock()
	if b.state.Phase == control.Ended {
		r.mu.Unlock()
		return
	}
	b.state.Phase, b.state.Reason, b.state.Message, b.state.Ended = control.Ended, reason, message, time.Now()
	close(b.changed)
	b.changed = make(chan struct{})
	cmd := b.cmd
	r.mu.Unlock()
	if cmd != nil {
		cmd.Process.Signal(os.Interrupt) // the agent ends what it started
	}
}

// KillAgent ends a sandbox's agent with no word to the runtime until it is noticed.
func (r *Runtime) KillAgent(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boxes[id].cmd.Process.Kill()
}

// Start implements control.Runtime. The image "never" is refused.
func (r *Runtime) Start(_ context.Context, spec sandbox.Spec) (control.State, error) {
	if spec.Image == "never" {
		return control.State{}, &sandbox.Refused{Image: spec.Image, Reason: "there is no such image"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.boxes[spec.ID]; b != nil && b.state.Phase != control.Ended {
		return b.state, control.ErrExists
	}
	r.starts++
	uid := fmt.Sprintf("uid-%d-%s", r.starts, rand.Text())
	b := &box{
		state: control.State{
			Spec: spec, UID: uid, Phase: control.Pending, Created: time.Now(), Scheduled: time.Now(), Host: "test",
			Limits: control.LimitsPartial, ExpiresAt: time.Now().Add(spec.Lifetime),
		},
		changed: make(chan struct{}), socket: filepath.Join(r.dir, fmt.Sprintf("%d.sock", r.starts)),
	}
	b.http = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
		},
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 60 * time.Second,
	}
	r.boxes[spec.ID] = b
	if r.held[spec.ID] {
		return b.state, nil
	}
	args := []string{
		"--listen", "unix:" + b.socket, "--uid", uid, "--keys", r.pub, "--cwd", spec.Workdir,
		"--spool", filepath.Join(r.dir, "spool"), "--lease", spec.Lease.String(),
	}
	for k, v := range spec.Env {
		args = append(args, "--env", k+"="+v)
	}
	b.cmd = exec.Command(r.agent, args...)
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}
	if err := b.cmd.Start(); err != nil {
		return control.State{}, err
	}
	r.workers.Go(func() { r.watch(b) })
	return b.state, nil
}

// watch sees a sandbox from its start to its end.
func (r *Runtime) watch(b *box) {
	exited := make(chan error, 1)
	go func() { exited <- b.cmd.Wait() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ready := false; ; {
		select {
		case err := <-exited:
			r.end(b, "lost", fmt.Sprintf("its agent ended: %v", err))
			b.http.CloseIdleConnections()
			return
		case <-tick.C:
		}
		if ready {
			continue
		}
		if c, err := net.Dial("unix", b.socket); err == nil {
			c.Close()
			ready = true
			tick.Reset(time.Hour)
			r.mu.Lock()
			if b.state.Phase == control.Pending {
				b.state.Phase, b.state.Ready = control.Ready, time.Now()
				close(b.changed)
				b.changed = make(chan struct{})
			}
			r.mu.Unlock()
		}
	}
}

// Get implements control.Runtime.
func (r *Runtime) Get(_ context.Context, id string) (control.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.boxes[id]; b != nil {
		return b.state, nil
	}
	return control.State{}, control.ErrNotFound
}

// Wait implements control.Runtime.
func (r *Runtime) Wait(ctx context.Context, id string) (control.State, error) {
	for {
		r.mu.Lock()
		b := r.boxes[id]
		if b == nil {
			r.mu.Unlock()
			return control.State{}, control.ErrNotFound
		}
		state, changed := b.state, b.changed
		r.mu.Unlock()
		if state.Phase != control.Pending {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-changed:
		}
	}
}

// List implements control.Runtime.
func (r *Runtime) List(context.Context) ([]control.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []control.State
	for _, b := range r.boxes {
		all = append(all, b.state)
	}
	slices.SortFunc(all, func(a, b control.State) int { return strings.Compare(a.Spec.ID, b.Spec.ID) })
	return all, nil
}

// Stop implements control.Runtime.
func (r *Runtime) Stop(ctx context.Context, id, reason string) error {
	if _, err := r.Get(ctx, id); err != nil {
		return err
	}
	r.End(id, reason, "")
	return nil
}

// Agent implements control.Runtime.
func (r *Runtime) Agent(_ context.Context, id string) (http.RoundTripper, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[id]
	if b == nil {
		return nil, "", control.ErrNotFound
	}
	if b.state.Phase != control.Ready {
		return nil, "", control.ErrNotReady
	}
	return &wire.Transport{Base: b.http, Key: r.key, UID: b.state.UID}, "http://agent", nil
}

// Resources implements control.Resourcer.
func (r *Runtime) Resources(context.Context) (control.Resources, error) {
	return control.Resources{
		Nodes:     []control.Node{{Name: "test", Capacity: control.Amount{CPU: 4, MemoryBytes: 8 << 30}, Allocatable: control.Amount{CPU: 3, MemoryBytes: 7 << 30}}},
		Sandboxes: []control.Request{{Name: "sandbox-a", Namespace: "sandbox-pods", Phase: "Running", CPU: 4, MemoryRequest: 1 << 30}},
	}, nil
}
