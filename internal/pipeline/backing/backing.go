// Package backing starts, in this process, what a pipeline's steps need beside files:
// a sandbox service over the local runtime, and a model server for a policy that needs no model.
//
// Both listen on loopback, on ports and under a key made for the run, and end with this
// process however it ends. Whatever the environment or a parameter already names is
// used instead, and nothing is started for it.
package backing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/exit"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local"
	"orchard/internal/serve"
)

// Options say what is there already.
type Options struct {
	StateDir   string       // of the local runtime
	CacheDir   string       // images and Go caches, shared between runs
	SandboxURL string       // of a sandbox service to use; "" starts one
	Policy     http.Handler // model server to start, under the model name PolicyName; nil: there is one
	PolicyName string
	Tools      []string                      // of the local runtime
	Log        zerolog.Logger                // of the sandbox service
	Say        func(format string, a ...any) // tells what takes long; may be nil
}

// Start starts what is missing and returns the environment that leads to it. stop ends
// it again and waits until it has.
func Start(ctx context.Context, o Options) (env []string, stop func(), err error) {
	b := &backing{}
	ctx = o.Log.WithContext(ctx)
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if o.SandboxURL == "" {
		if err := b.sandboxes(ctx, o); err != nil {
			return nil, nil, err
		}
	}
	if o.Policy != nil {
		if err := b.policy(o); err != nil {
			return nil, nil, err
		}
	}
	return b.env, b.stop, nil
}

type backing struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	env    []string
	ends   []func()
	once   sync.Once
}

func (b *backing) stop() {
	b.once.Do(func() {
		b.cancel()
		b.work.Wait()
		for _, end := range b.ends {
			end()
		}
	})
}

func listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, exit.Configf("listen on loopback: %w", err)
	}
	return l, nil
}

func (b *backing) sandboxes(ctx context.Context, o Options) error {
	rt, err := local.New(ctx, local.Options{StateDir: o.StateDir, CacheDir: o.CacheDir, Tools: o.Tools})
	if err != nil {
		return fmt.Errorf("start sandboxes: %w", err)
	}
	b.ends = append(b.ends, func() { _ = rt.Close() })
	if o.Say != nil {
		wait := time.AfterFunc(time.Second, func() {
			o.Say("building the Go cache that sandboxes share; this is done once and takes about a minute")
		})
		defer wait.Stop()
	}
	if err := rt.Warm(ctx); err != nil {
		return fmt.Errorf("build the Go cache of the sandboxes: %w", err)
	}
	l, err := listen()
	if err != nil {
		return err
	}
	key := control.NewKey()
	settings := control.Defaults()
	settings.Keys, settings.MaxTimeout = control.ParseKeys(key), 7*24*time.Hour
	b.work.Go(func() { _ = control.Serve(b.ctx, l, rt, settings) }) // its errors show in every step's own
	b.env = append(b.env, "SANDBOX_BASE_URL=http://"+l.Addr().String(), "SANDBOX_API_KEY="+key)
	return nil
}

func (b *backing) policy(o Options) error {
	l, err := listen()
	if err != nil {
		return err
	}
	// Nobody asks any more once the steps have ended; an error shows in every step's own.
	b.work.Go(func() { _ = serve.Until(b.ctx, l, &http.Server{Handler: o.Policy}, time.Second) })
	b.env = append(b.env, "OPENAI_BASE_URL=http://"+l.Addr().String()+"/v1", "OPENAI_API_KEY=", "ORCHARD_LLM_MODEL="+o.PolicyName)
	return nil
}
