package local

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local/image"
	"orchard/internal/seal"
)

// tombstone is how long an ended sandbox stays known.
const tombstone = time.Hour

// Runtime makes sandboxes on this machine. Safe for concurrent use.
type Runtime struct {
	opts      Options
	service   *service
	reachDir  *os.File // the service's folder: a path through it fits a socket's address
	key       ed25519.PrivateKey
	publicKey string
	hostname  string
	spawn     *spawner
	ids       *idRanges
	images    *image.Store
	host      *host
	warm      *warmer
	cgroups   *hierarchies // nil where none can be made

	ctx    context.Context // of everything in the background
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	boxes  map[string]*box // by sandbox id

	prepulls map[string]*prepull // by id
}

var (
	_ control.Runtime   = (*Runtime)(nil)
	_ control.Resourcer = (*Runtime)(nil)
	_ control.Prepuller = (*Runtime)(nil)
)

// Start implements control.Runtime.
func (r *Runtime) Start(ctx context.Context, spec sandbox.Spec) (control.State, error) {
	if err := ctx.Err(); err != nil {
		return control.State{}, err
	}
	l, err := r.limitsOf(spec)
	if err != nil {
		return control.State{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return control.State{}, errors.New("the sandbox service ends")
	}
	r.forget()
	if old, ok := r.boxes[spec.ID]; ok {
		if st := old.snapshot(); st.Phase != control.Ended {
			return st, control.ErrExists
		}
	}
	now := time.Now()
	b := &box{r: r, limits: l, ready: make(chan struct{}), ended: make(chan struct{})}
	b.state = control.State{
		Spec: spec, UID: seal.Random(16), Phase: control.Pending, Created: now, Scheduled: now, Host: r.hostname, Limits: control.LimitsFull,
		Message: "it is about to start",
	}
	if r.cgroups == nil {
		b.state.Limits = control.LimitsPartial
	}
	if spec.Lifetime > 0 {
		b.state.ExpiresAt = now.Add(spec.Lifetime)
	}
	b.dir = r.service.boxDir(b.state.UID)
	var boxCtx context.Context
	boxCtx, b.cancel = context.WithCancel(r.ctx)
	r.boxes[spec.ID] = b
	r.wg.Go(func() {
		defer b.cancel()
		b.run(boxCtx)
	})
	return b.snapshot(), nil
}

// forget drops what ended long ago. The caller holds mu.
func (r *Runtime) forget() {
	for id, b := range r.boxes {
		if st := b.snapshot(); st.Phase == control.Ended && time.Since(st.Ended) > tombstone {
			delete(r.boxes, id)
		}
	}
}

// sorted is every box by id. The caller holds mu.
func (r *Runtime) sorted() []*box {
	boxes := make([]*box, 0, len(r.boxes))
	for _, b := range r.boxes {
		boxes = append(boxes, b)
	}
	slices.SortFunc(boxes, func(a, b *box) int { return strings.Compare(a.state.Spec.ID, b.state.Spec.ID) })
	return boxes
}

func (r *Runtime) find(id string) (*box, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	b, ok := r.boxes[id]
	if !ok {
		return nil, fmt.Errorf("%s: %w", id, control.ErrNotFound)
	}
	return b, nil
}

// Get implements control.Runtime.
func (r *Runtime) Get(_ context.Context, id string) (control.State, error) {
	b, err := r.find(id)
	if err != nil {
		return control.State{}, err
	}
	return b.snapshot(), nil
}

// Wait implements control.Runtime.
func (r *Runtime) Wait(ctx context.Context, id string) (control.State, error) {
	b, err := r.find(id)
	if err != nil {
		return control.State{}, err
	}
	select {
	case <-b.ready:
	case <-b.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return b.snapshot(), err
}

// List implements control.Runtime.
func (r *Runtime) List(context.Context) ([]control.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	states := []control.State{}
	for _, b := range r.sorted() {
		states = append(states, b.snapshot())
	}
	return states, nil
}

// Stop implements control.Runtime. It returns when nothing of the sandbox is left, or
// ctx is over; the sandbox ends in any case.
func (r *Runtime) Stop(ctx context.Context, id, reason string) error {
	b, err := r.find(id)
	if err != nil {
		return err
	}
	b.end(reason, reason)
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of sandbox %s: %w", id, ctx.Err())
	}
}

// Agent implements control.Runtime.
func (r *Runtime) Agent(_ context.Context, id string) (http.RoundTripper, string, error) {
	b, err := r.find(id)
	if err != nil {
		return nil, "", err
	}
	t, err := b.signed()
	if err != nil {
		return nil, "", fmt.Errorf("sandbox %s: %w", id, err)
	}
	return t, agentURL, nil
}

// Warm builds the Go cache that sandboxes of "host" share, if it is not there yet, and
// returns when it is. Such sandboxes wait for it; where it cannot be built they start
// with an empty one.
func (r *Runtime) Warm(ctx context.Context) error {
	if r.host.goTool == nil {
		return nil
	}
	r.warm.start(r.ctx, &r.wg, r.host.goTool)
	return r.warm.wait(ctx)
}

// reach is a short path to a file of the service's folder: a socket's address holds 107
// bytes, a state folder's path may be longer.
func (r *Runtime) reach(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", r.reachDir.Fd(), name)
}

// transport reaches one socket and nothing else.
func (r *Runtime) transport(socket string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", r.reach(socket))
		},
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     2 * time.Minute,
		DisableCompression:  true,
	}
}

// newCgroup is nil where there are none.
func (r *Runtime) newCgroup(name string, l limits) (*cgroup, error) {
	if r.cgroups == nil {
		return nil, nil
	}
	return r.cgroups.newCgroup(name, l)
}
