package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// How often progress is told: to people who look, and to a log.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// meter tells how far a long command is: a bar on a terminal, else a line now and then.
// Safe for concurrent use.
type meter struct {
	mu    sync.Mutex
	w     io.Writer
	bar   bool
	what  string
	now   func() time.Time
	begin time.Time
	last  time.Time
	drawn bool
}

func newMeter(w io.Writer, what string) *meter {
	f, ok := w.(*os.File)
	m := &meter{w: w, what: what, bar: ok && term.IsTerminal(int(f.Fd())), now: time.Now}
	m.begin = m.now()
	m.last = m.begin // so that a quick command says nothing
	return m
}

// set is told done of total things, and how many bytes were moved.
func (m *meter) set(done, total, bytes int64, unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	every := lineEvery
	if m.bar {
		every = barEvery
	}
	if now.Sub(m.last) < every {
		return
	}
	m.last = now
	text := fmt.Sprintf("%s  %d/%d %s", m.what, done, total, unit)
	if bytes > 0 {
		rate := float64(bytes) / max(now.Sub(m.begin).Seconds(), 0.001)
		text += fmt.Sprintf("  %s  %s/s", size(bytes), size(int64(rate)))
	}
	if !m.bar {
		fmt.Fprintln(m.w, text)
		return
	}
	const width = 24
	full := 0
	if total > 0 {
		full = int(width * min(done, total) / total)
	}
	fmt.Fprintf(m.w, "\r\x1b[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), text)
	m.drawn = true
}

// end removes the bar; what came of it follows on standard output.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drawn {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}
