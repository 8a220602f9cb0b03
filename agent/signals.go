package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext is done on SIGTERM or SIGINT. As PID 1 it never is: user code may send
// a signal to PID 1 as well as the kubelet, the receiver cannot tell them apart, and a
// stray kill must not end the sandbox. There only the lease, a controller, and SIGKILL
// from outside do.
//
// Other signals that would end the process are swallowed, not ignored: ignoring is
// inherited by commands.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	swallowed := []os.Signal{
		syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGIO, syscall.SIGPWR, syscall.SIGXCPU, syscall.SIGXFSZ,
	}
	deaf := make(chan os.Signal, 1) // nobody reads: os/signal drops what does not fit
	end := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if os.Getpid() == 1 {
		signal.Notify(deaf, append(swallowed, end...)...)
		return context.WithCancel(parent)
	}
	signal.Notify(deaf, swallowed...)
	return signal.NotifyContext(parent, end...)
}
