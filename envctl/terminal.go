package envctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"orchard/envctl/client"
)

// keepTerminal is how long a program waits for a connection that broke to come back.
const keepTerminal = time.Minute

// noLimit is as long as a timer can be.
const noLimit = 1<<63 - 1

// file is f when it is a terminal.
func file(f any) (*os.File, bool) {
	t, ok := f.(*os.File)
	return t, ok && term.IsTerminal(int(t.Fd()))
}

// terminal runs a program on a terminal that is this one, if there is one: keys go to it
// as they are, also Ctrl-C, and it learns when the window changes.
func (p *Program) terminal(ctx context.Context, box *client.Sandbox, spec client.TerminalSpec, timeout time.Duration) error {
	screen, seen := file(p.Out)
	if seen {
		if cols, rows, err := term.GetSize(int(screen.Fd())); err == nil {
			spec.Rows, spec.Cols = rows, cols
		}
		if spec.Env["TERM"] == "" && os.Getenv("TERM") != "" {
			spec.Env = with(spec.Env, "TERM", os.Getenv("TERM"))
		}
	}
	spec.Keep = keepTerminal
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := box.Terminal(ctx, spec)
	if err != nil {
		return err
	}
	defer t.Close()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var timedOut atomic.Bool
	limit := time.AfterFunc(timeout, func() {
		timedOut.Store(true)
		_ = t.Signal("KILL") // an error is its end
	})
	defer limit.Stop()
	back := p.stops.hand(func(os.Signal) { _ = t.Signal("HUP") }) // Ctrl-C is a key, so this came from elsewhere
	defer back()
	if keys, ok := file(p.In); ok {
		before, err := term.MakeRaw(int(keys.Fd()))
		if err != nil {
			return fmt.Errorf("make the terminal raw: %w", err)
		}
		defer term.Restore(int(keys.Fd()), before)
	}
	if seen {
		work.Go(func() { follow(ctx, screen, t, spec.Rows, spec.Cols) })
	}
	// The reading of keys cannot be ended; it ends with the process.
	go func() {
		if _, err := io.Copy(t, p.In); err == nil {
			_, _ = t.Write([]byte{4}) // Ctrl-D: there is no more input
		}
	}()
	if _, err := io.Copy(p.Out, t); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return unknown{err}
	}
	code, err := t.Wait()
	switch {
	case err != nil:
		return unknown{err}
	case timedOut.Load():
		return status(124)
	}
	return remote(code)
}

// follow tells t whenever the window is no longer of the size that t was last told: also
// when it changed before anybody listened for it.
func follow(ctx context.Context, screen *os.File, t *client.Terminal, rows, cols int) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		if c, r, err := term.GetSize(int(screen.Fd())); err == nil && (r != rows || c != cols) {
			rows, cols = r, c
			_ = t.Resize(rows, cols) // an error is its end, and told by it
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func with(m map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range m {
		out[k] = v
	}
	return out
}
