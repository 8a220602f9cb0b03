package local

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local/image"
)

// New opens a runtime on opts.StateDir, after removing what a killed one left there. An
// error of exit code 78 names what this machine or the options lack. ctx carries the
// logger and nothing else: Close ends the runtime.
func New(ctx context.Context, opts Options) (*Runtime, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := opts.defaults(); err != nil {
		return nil, err
	}
	if err := haveNamespaces(); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	r := &Runtime{opts: opts, key: private, publicKey: wire.FormatPublicKey(public), ids: newIDRanges(), boxes: map[string]*box{}, prepulls: map[string]*prepull{}}
	if r.hostname, err = os.Hostname(); err != nil {
		return nil, err
	}
	if r.images, err = image.Open(filepath.Join(opts.CacheDir, "images"), r.ids.ranges); err != nil {
		return nil, unusable("--cache-dir", opts.CacheDir, err)
	}
	if err := checkOwned(opts.CacheDir); err != nil {
		return nil, unusable("--cache-dir", opts.CacheDir, err)
	}
	if r.service, err = openService(opts.StateDir); err != nil {
		return nil, unusable("--state-dir", opts.StateDir, err)
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.spawn = newSpawner()
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkOwned refuses a folder that another user made or may write: what lies in the
// cache is run.
func checkOwned(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return errors.New("belongs to another user, or others may write it; give a folder of your own")
	}
	return nil
}

// unusable marks why a folder that the user chose cannot be used: it is full, or cannot
// be made or written.
func unusable(flag, folder string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return exit.Gonef("%s %s: %w", flag, folder, err)
	}
	return exit.Configf("%s %s: %w", flag, folder, err)
}

// open is what New does once there is something to close.
func (r *Runtime) open() error {
	var err error
	if r.reachDir, err = os.Open(r.service.dir); err != nil {
		return err
	}
	if err := copyAgent(r.opts.AgentPath, r.agentPath()); err != nil {
		return err
	}
	r.host = &host{dir: filepath.Join(r.service.dir, "host"), tools: r.opts.Tools, goTool: findGo(r.ctx)}
	r.warm = &warmer{dir: filepath.Join(r.opts.CacheDir, "go"), spawn: r.spawn, done: make(chan struct{})}
	r.cgroups, err = newHierarchies("orchard-"+r.service.id, filepath.Join(r.service.dir, recordName))
	if err != nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Msg("limits of sandboxes are partial")
	}
	if err := r.probe(); err != nil {
		return exit.Configf("this machine cannot run local sandboxes: %w; orchard doctor explains", err)
	}
	return nil
}

func (r *Runtime) agentPath() string { return filepath.Join(r.service.dir, "agent") }

// copyAgent makes the agent readable and executable for every uid, and the same for the
// whole life of the service.
func copyAgent(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return exit.Configf("the agent: %w", err)
	}
	defer in.Close()
	// A child that another goroutine forks meanwhile would hold the file open for writing,
	// and nobody could run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o555), out.Close())
}

// Close ends every sandbox and removes what the service keeps; caches stay. A second
// call does nothing.
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	boxes := r.sorted()
	r.mu.Unlock()
	for _, b := range boxes {
		b.end(control.ReasonShutdown, "the sandbox service ended")
	}
	r.cancel()
	r.wg.Wait()
	r.spawn.close()
	errs := []error{removeRecordedCgroups(r.service.dir), r.service.close()}
	if r.reachDir != nil {
		errs = append(errs, r.reachDir.Close())
	}
	return errors.Join(errs...)
}
