package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ringSize     = 256 << 10 // of a terminal's output; a client may be so far behind
	keptRingSize = 1 << 20   // of one that lives on without a client
	tailQuiet    = 500 * time.Millisecond
	tailMost     = 128 << 10 // more than the kernel holds of what an ended program printed
	inputPiece   = 64 << 10
	inputPieces  = 16 // that wait for a program to read them
)

// terminal is a program on a terminal. What it prints goes into a ring, from which the
// client that is attached, one at most, is sent. While there is one, the program waits
// when the client is a whole ring behind; without one, the oldest bytes go. Safe for
// concurrent use.
type terminal struct {
	id      string
	keep    time.Duration // how long it lives without a client
	process process       // pid 0: it could not be started
	tty     *os.File
	input   chan []byte
	end     context.Context // over when the sandbox ends
	stop    chan struct{}   // closed when the program must end
	exited  chan struct{}   // closed when it has
	over    chan struct{}   // closed when its output is complete too

	mu       sync.Mutex
	out      ring
	viewer   *viewer
	changed  chan struct{} // closed and made anew when something here changes
	stopping bool
	code     int       // once over
	alone    time.Time // since when there is no viewer
}

func newTerminal(end context.Context, id string, keep time.Duration) *terminal {
	size := ringSize
	if keep > 0 {
		size = keptRingSize
	}
	return &terminal{
		id: id, keep: keep, end: end, out: ring{size: size}, input: make(chan []byte, inputPieces),
		stop: make(chan struct{}), exited: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{}),
	}
}

// tell wakes all who wait for a change. t.mu is held.
func (t *terminal) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// killLocked ends the program and all that it started. t.mu is held.
func (t *terminal) killLocked() {
	if !t.stopping {
		t.stopping = true
		close(t.stop)
	}
}

// refuse ends a terminal whose program could not be started.
func (t *terminal) refuse(text string, code int) {
	t.out.write([]byte(text))
	t.code = code
	close(t.exited)
	close(t.over)
}

// run sees the program to its end.
func (t *terminal) run() {
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		t.pump()
	}()
	go t.feed()
	var status syscall.WaitStatus
	select {
	case status = <-t.process.exit:
	case <-t.stop:
		status = t.put(true)
	case <-t.end.Done():
		status = t.put(false)
	}
	close(t.exited)
	_ = t.tty.SetReadDeadline(time.Now().Add(tailQuiet))
	<-pumped
	t.tty.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.code = exitCode(status)
	close(t.over)
	t.tell()
}

// put waits for the death of the program, and puts it and all that it started to death
// unless the end of the sandbox does.
func (t *terminal) put(kill bool) syscall.WaitStatus {
	patience, cancel := context.WithTimeout(context.WithoutCancel(t.end), killPatience)
	defer cancel()
	if kill {
		t.process.kill(patience, t.process.pid)
	}
	select {
	case status := <-t.process.exit:
		return status
	case <-patience.Done(): // it hangs in the kernel
		return syscall.WaitStatus(syscall.SIGKILL)
	}
}

// pump reads the terminal until nobody has it open any more (EIO). When the program has
// ended and something else holds it, it reads what the program may have printed, and no
// longer than that takes.
func (t *terminal) pump() {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for rest := tailMost; rest > 0; {
		n, err := t.tty.Read(block[:])
		if !t.store(block[:n]) || err != nil {
			return
		}
		select {
		case <-t.exited:
			rest -= n
			_ = t.tty.SetReadDeadline(time.Now().Add(tailQuiet))
		default:
		}
	}
}

// store waits until there is room for b; false when the sandbox ends first.
func (t *terminal) store(b []byte) bool {
	for len(b) > 0 {
		t.mu.Lock()
		n := len(b)
		if t.viewer != nil {
			n = min(n, t.out.size-int(t.out.total-t.viewer.at))
		}
		changed := t.changed
		if n > 0 {
			t.out.write(b[:n])
			b = b[n:]
			t.tell()
		}
		t.mu.Unlock()
		if n > 0 {
			continue
		}
		select {
		case <-changed:
		case <-t.end.Done():
			return false
		}
	}
	return true
}

// feed writes what clients type. A program that does not read holds it up, and nothing else.
func (t *terminal) feed() {
	for {
		select {
		case piece := <-t.input:
			if _, err := t.tty.Write(piece); errors.Is(err, os.ErrClosed) {
				return // after the end; any other error is of a terminal that nobody has open
			}
		case <-t.over:
			return
		}
	}
}

// typed queues what a client typed; after the program's end it goes nowhere.
func (t *terminal) typed(b []byte, gone <-chan struct{}) {
	for len(b) > 0 {
		n := min(len(b), inputPiece)
		select {
		case t.input <- b[:n]:
		case <-t.exited:
			return
		case <-gone:
			return
		}
		b = b[n:]
	}
}

// terminalSignals are those that the original has; any other name is TERM.
var terminalSignals = map[string]syscall.Signal{
	"TERM": unix.SIGTERM, "KILL": unix.SIGKILL, "INT": unix.SIGINT, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT,
}

func terminalSignal(name string) syscall.Signal {
	if signal, ok := terminalSignals[name]; ok {
		return signal
	}
	return unix.SIGTERM
}
