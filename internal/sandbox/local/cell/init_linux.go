package cell

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Init is the first call of the agent's main. It returns at once in a process that no
// service started; in one that shall be a cell it never returns; in the agent that a
// cell has executed it shuts the process's memory and descriptors off from the commands
// that it will run, which are root as well.
func Init() {
	switch os.Getenv(Variable) {
	case setup:
		runtime.LockOSThread() // what a thread gives up, the program it executes has not
		err := run()
		unix.Write(ConfigFD, []byte(err.Error()))
		os.Exit(1)
	case agent:
		os.Unsetenv(Variable)
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			fmt.Fprintf(os.Stderr, "shut the agent off from its commands: %v\n", err)
			os.Exit(1)
		}
	}
}

// run returns only with an error: else it has become the agent.
func run() error {
	unix.CloseOnExec(ConfigFD)
	c, err := receive()
	if err != nil {
		return err
	}
	if len(c.Overlays) == 0 || len(c.Argv) == 0 {
		return errors.New("the configuration names no root or no agent")
	}
	// A thread with its own working folder and root is what the mounts below are made by.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the working folder: %w", err)
	}
	// The sandbox goes before the service when the machine runs out of memory; and a service
	// that the kernel must not kill would make its sandboxes so, with nothing to kill in them.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil {
		return fmt.Errorf("offer the sandbox to the out-of-memory killer: %w", err)
	}
	if err := c.build(); err != nil {
		return err
	}
	if err := c.identity(); err != nil {
		return err
	}
	return c.become()
}

// identity makes the sandbox look like a machine of its own.
func (c *Config) identity() error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return fmt.Errorf("raise the loopback interface: %w", err)
	}
	// The service has put this process where it belongs by now; what is above is not shown.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare the cgroup namespace: %w", err)
	}
	return nil
}

func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// become gives up what is left and executes the agent.
func (c *Config) become() error {
	if err := c.limit(); err != nil {
		return err
	}
	if err := c.giveUp(); err != nil {
		return err
	}
	// After the last change of credentials, which clears it. A service that died before
	// this line has closed its end of the socket.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the service: %w", err)
	}
	poll := []unix.PollFd{{Fd: ConfigFD}}
	_, err := unix.Poll(poll, 0)
	for err == unix.EINTR {
		_, err = unix.Poll(poll, 0)
	}
	if err != nil || poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		return errors.New("the service is gone")
	}
	env := append(c.Env, Variable+"="+agent)
	if err := unix.CloseRange(ListenFD+1, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	if err := filterSyscalls(); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	if c.Probe {
		return errors.New(Probed)
	}
	err = unix.Exec(c.Argv[0], c.Argv, env)
	return fmt.Errorf("execute %s: %w", c.Argv[0], err)
}
