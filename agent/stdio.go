package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// stdio is a command's three streams.
type stdio struct {
	given    []*os.File // 0, 1 and 2 of the child
	captures []*capture
	filter   *noiseFilter  // nil: nothing is dropped
	feed     *os.File      // the agent's end of the child's stdin, nil for /dev/null
	fed      chan struct{} // closed when nothing is written to feed any more
}

// openStdio makes j's streams. On an error nothing stays open.
func (s *Server) openStdio(j *job, req *wire.ExecRequest, noisy bool) (*stdio, error) {
	f := &stdio{}
	err := f.openStdin(req.Stdin, j.input)
	if err == nil {
		err = f.openOutput(s, j, req.Merge, noisy)
	}
	if err != nil {
		f.closeGiven()
		f.seal()
		return nil, err
	}
	return f, nil
}

// openStdin makes a stdin of text, which stays open for keep when there is one.
func (f *stdio) openStdin(text []byte, keep *input) error {
	if len(text) == 0 && keep == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("open stdin: %w", err)
		}
		f.given = append(f.given, null)
		return nil
	}
	read, write, err := pipe(1)
	if err != nil {
		return err
	}
	f.given, f.feed, f.fed = append(f.given, read), write, make(chan struct{})
	go func() {
		defer close(f.fed)
		_, _ = io.Copy(write, bytes.NewReader(text)) // the command need not read it
		if keep != nil {
			keep.open(write)
		} else {
			write.Close()
		}
	}()
	return nil
}

func (f *stdio) openOutput(s *Server, j *job, merge, noisy bool) error {
	sinks := []io.Writer{j.stdout, j.stderr}
	if merge {
		sinks = sinks[:1]
	}
	if last := len(sinks) - 1; noisy {
		f.filter = &noiseFilter{into: sinks[last]}
		sinks[last] = f.filter
	}
	for _, sink := range sinks {
		c, write, err := newCapture(&s.running, sink)
		if err != nil {
			return err
		}
		f.captures = append(f.captures, c)
		f.given = append(f.given, write)
	}
	if merge {
		f.given = append(f.given, f.given[1])
	}
	return nil
}

// fds are the child's, for a fork.
func (f *stdio) fds() []uintptr {
	fds := make([]uintptr, len(f.given))
	for i, file := range f.given {
		fds[i] = file.Fd()
	}
	return fds
}

// closeGiven is called after the fork: from then on only the child holds its ends.
func (f *stdio) closeGiven() {
	for _, file := range f.given {
		_ = file.Close() // twice for a merged one
	}
}

// seal returns when all that the child has printed is stored, and ends its stdin.
func (f *stdio) seal() {
	for _, c := range f.captures {
		c.seal()
	}
	if f.filter != nil {
		f.filter.flush()
	}
	if f.feed != nil {
		_ = f.feed.Close()
		<-f.fed
	}
}

// pipe makes a pipe; this process's end of it, 0 to read or 1 to write, is polled,
// the child's blocks as programs expect.
func pipe(ours int) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}
