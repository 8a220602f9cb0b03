package agent

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// capture reads one stream of a command into a writer, and goes on reading after the
// job has ended, so that what lives on in the background neither blocks nor dies of
// SIGPIPE.
type capture struct {
	read   *os.File
	into   io.Writer
	sealed chan struct{} // closed when into gets no more
}

// newCapture starts a capture, which lives in running until the last process has
// closed the stream; write is the end for the child, to be closed by the caller after
// the fork.
func newCapture(running *sync.WaitGroup, into io.Writer) (c *capture, write *os.File, err error) {
	read, write, err := pipe(0)
	if err != nil {
		return nil, nil, err
	}
	c = &capture{read: read, into: into, sealed: make(chan struct{})}
	running.Go(c.run)
	return c, write, nil
}

// seal ends the capture of what was printed until now, all of it, without waiting for
// processes that hold the stream open.
func (c *capture) seal() {
	_ = c.read.SetReadDeadline(time.Unix(1, 0)) // an error means that the stream has ended
	<-c.sealed
}

func (c *capture) run() {
	defer c.read.Close()
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	buf := block[:]
	err := c.copy(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.read.SetReadDeadline(time.Time{})
		c.copyPending(buf)
	}
	close(c.sealed)
	for errors.Is(err, os.ErrDeadlineExceeded) {
		if _, err := c.read.Read(buf); err != nil {
			return
		}
	}
}

func (c *capture) copy(buf []byte) error {
	for {
		n, err := c.read.Read(buf)
		_, _ = c.into.Write(buf[:n])
		if err != nil {
			return err
		}
	}
}

// copyPending takes what is in the pipe now and no more: a survivor may print forever.
func (c *capture) copyPending(buf []byte) {
	pending := 0
	raw, err := c.read.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { pending, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	for pending > 0 {
		n, err := c.read.Read(buf[:min(pending, len(buf))])
		_, _ = c.into.Write(buf[:n])
		if err != nil {
			return
		}
		pending -= n
	}
}
