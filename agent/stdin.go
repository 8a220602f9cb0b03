package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
)

// stdinPatience is how long a job may leave its input unread before whoever writes is told.
const stdinPatience = 30 * time.Second

// input is the standard input of a job that keeps it open. Safe for concurrent use.
type input struct {
	opened chan struct{} // closed when the command runs and has what it was started with
	turn   chan struct{} // holds one: requests write one after the other

	file *os.File // set before opened is closed

	mu     sync.Mutex
	taken  int64
	closed bool
}

func newInput() *input {
	in := &input{opened: make(chan struct{}), turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

// open is called once.
func (in *input) open(file *os.File) {
	in.file = file
	close(in.opened)
}

func (in *input) view() wire.Input {
	in.mu.Lock()
	defer in.mu.Unlock()
	return wire.Input{Bytes: in.taken, Closed: in.closed}
}

// write passes from on, all but what lies before the bytes taken already.
func (in *input) write(from io.Reader, offset int64) error {
	have := in.view()
	switch {
	case have.Closed:
		return conflict("the job's stdin was closed after %d bytes", have.Bytes)
	case offset > have.Bytes:
		return conflict("offset %d is beyond the %d bytes that were taken", offset, have.Bytes)
	case offset >= 0:
		if _, err := io.CopyN(io.Discard, from, have.Bytes-offset); err == io.EOF {
			return nil // all of it was there
		} else if err != nil {
			return badRequest("the body ended early: %v", err)
		}
	}
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for {
		n, readErr := from.Read(block[:])
		_ = in.file.SetWriteDeadline(time.Now().Add(stdinPatience))
		n, err := in.file.Write(block[:n])
		in.mu.Lock()
		in.taken += int64(n)
		taken := in.taken
		in.mu.Unlock()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &problem{http.StatusRequestTimeout, wire.CodeStalled, "the command has not read its stdin for " + stdinPatience.String() +
				": " + strconv.FormatInt(taken, 10) + " bytes were taken"}
		case err != nil:
			return conflict("the command reads its stdin no more: %d bytes were taken", taken)
		case readErr == io.EOF:
			return nil
		case readErr != nil:
			return badRequest("the body ended early: %v; %d bytes were taken", readErr, taken)
		}
	}
}

func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	_ = in.file.Close()
}

// stdin writes to a job's standard input.
func (s *Server) stdin(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	offset, err := offsetOf(query, -1)
	if err != nil {
		return err
	}
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	in := j.input
	if in == nil {
		return conflict("job %s was not started with stdin_open", j.view.ID)
	}
	if err := in.await(r.Context(), j); err != nil {
		return err
	}
	defer func() { in.turn <- struct{}{} }()
	if err := in.write(r.Body, offset); err != nil {
		return err
	}
	if query.Get("close") == "1" {
		in.end()
	}
	return writeJSON(w, http.StatusOK, in.view())
}

// await returns when the command reads and it is the caller's turn.
func (in *input) await(ctx context.Context, j *job) error {
	patience := time.NewTimer(stdinPatience)
	defer patience.Stop()
	for _, event := range []<-chan struct{}{in.opened, in.turn} {
		select {
		case <-event:
		case <-j.done:
			return conflict("job %s has ended", j.view.ID)
		case <-patience.C:
			return &problem{http.StatusRequestTimeout, wire.CodeStalled, "the job has not started, or does not read its stdin: nothing was taken"}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

var jobSignals = map[string]syscall.Signal{
	"TERM": unix.SIGTERM, "KILL": unix.SIGKILL, "INT": unix.SIGINT, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT,
	"USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2, "STOP": unix.SIGSTOP, "CONT": unix.SIGCONT, "WINCH": unix.SIGWINCH,
}

// signalJob sends a signal to a job's own process group.
func (s *Server) signalJob(w http.ResponseWriter, r *http.Request) error {
	var asked wire.Signal
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return badRequest("the body is not a signal: %v", err)
	}
	signal, ok := jobSignals[asked.Sig]
	if !ok {
		return badRequest("sig: %.20q is no signal's name like TERM", asked.Sig)
	}
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	if j.snapshot().State == wire.Running {
		select { // a program can print before we know its process
		case <-j.started:
		case <-j.done:
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	j.mu.Lock()
	process := j.process
	j.mu.Unlock()
	if !s.processes.signal(process, signal) {
		return conflict("job %s does not run", r.PathValue("id"))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
