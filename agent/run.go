package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

const (
	idleTimeout   = 150 * time.Second // clients that keep connections for 120 s never meet a closed one
	headerTimeout = 10 * time.Second
	endPatience   = 5 * time.Second // for answers being written when the sandbox ends
	memoryTarget  = 40 << 20
	maxProcs      = 4
)

// Run serves until ctx is done (nil), the lease runs out (ErrLease) or a controller
// asks for the end (ErrShutdown); then it ends everything in the sandbox. Any other
// error means that it could not serve.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	debug.SetMemoryLimit(memoryTarget)
	runtime.GOMAXPROCS(min(maxProcs, runtime.GOMAXPROCS(0)))
	if err := becomeReaper(); err != nil {
		return err
	}
	// What this process was started with is no command's business. Kernels before 5.11 cannot.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := os.MkdirAll(cfg.Cwd, 0o755); err != nil {
		log.Warn("default working folder", "path", cfg.Cwd, "err", err.Error()) // commands fall back to /
	}
	jobs, endJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer endJobs()
	s, err := newServer(jobs, cfg, log)
	if err != nil {
		return err
	}
	defer s.spool.close()
	if os.Getpid() == 1 {
		// The container is this sandbox alone, so its count of kills is too.
		s.memory = watchMemory(memoryFiles)
	}
	if os.Getpid() == 1 || cfg.Identity != nil {
		// User code may have the same uid: it must not trace this process, or read its memory
		// and what it was started with.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("close this process to others: %w", err)
		}
	}
	makeThreads() // before any user code can take what they need
	listener, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	if cfg.Identity != nil {
		config, err := wire.ServeTLS(cfg.Identity)
		if err != nil {
			listener.Close()
			return err
		}
		listener = tls.NewListener(listener, config)
	}
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		s.processes.reap(reaping)
	}()
	s.running.Go(func() { s.awaitClosed(jobs) })
	s.running.Go(func() { s.memory.follow(jobs) })
	err = s.serve(ctx, listener, func() {
		s.jobs.close()
		endJobs()
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
		defer cancel()
		s.processes.close(patience)
		killDescendants(patience) // one search for all of them
	})
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	s.awaitRunning(patience)
	stopReaping()
	<-reaped
	return err
}

// awaitRunning returns when no job and no capture runs, or ctx is done: a process that
// hangs in the kernel must not keep the sandbox from ending.
func (s *Server) awaitRunning(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// serve answers until there is a reason to end. Then it ends all jobs, and answers
// those who wait for them.
func (s *Server) serve(ctx context.Context, listener net.Listener, endJobs func()) error {
	gate := &gate{}
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       gate.enter,
		ConnState:         gate.state,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.log.Info("serving", "uid", s.cfg.UID, "listen", listener.Addr().String(), "version", s.cfg.Version, "pid", os.Getpid())
	var end error
	select {
	case <-ctx.Done():
	case <-s.lease.over:
		end = ErrLease
	case <-s.lease.asked:
		end = ErrShutdown
	case <-s.memory.out:
		end = ErrMemory
	case err := <-failed:
		endJobs()
		return fmt.Errorf("serve %s: %w", s.cfg.Listen, err)
	}
	endJobs()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		server.Close()
	}
	<-failed
	return end
}

// listen opens a Unix socket, which any uid may connect to (a signature is what
// counts), or a TCP port, or takes over a listening socket that this process was
// started with ("fd:3"), which nothing in the sandbox can replace.
func listen(address string) (net.Listener, error) {
	if number, ok := strings.CutPrefix(address, "fd:"); ok {
		fd, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("--listen: %q is not fd:NUMBER", address)
		}
		f := os.NewFile(uintptr(fd), address)
		defer f.Close() // FileListener has a copy, which commands do not inherit
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		return l, nil
	}
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		return l, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // of an agent that was killed
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, nil
}
