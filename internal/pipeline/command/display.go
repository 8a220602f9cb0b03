package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"orchard/internal/pipeline"
)

// display shows a run as it goes: on a terminal one line a step, redrawn in place;
// elsewhere a line when a step starts, ends or has got further.
type display struct {
	w    io.Writer
	live bool

	mu    sync.Mutex
	rows  []*row
	drawn int // lines on the terminal that the next drawing goes over
	done  chan struct{}
	idle  sync.WaitGroup
}

type row struct {
	node     string
	phase    pipeline.Phase
	message  string
	dir      string // of the present attempt
	progress string
	started  time.Time
	ended    time.Time
}

const (
	liveEvery = 500 * time.Millisecond
	lineEvery = 5 * time.Second
)

func newDisplay(w io.Writer, live bool) *display {
	d := &display{w: w, live: live, done: make(chan struct{})}
	every := lineEvery
	if live {
		every = liveEvery
	}
	d.idle.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.refresh()
			case <-d.done:
				return
			}
		}
	})
	return d
}

func (d *display) close() {
	close(d.done)
	d.idle.Wait()
	d.refresh()
}

func (d *display) started(node, dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row(node).dir = dir
}

func (d *display) row(node string) *row {
	for _, r := range d.rows {
		if r.node == node {
			return r
		}
	}
	r := &row{node: node}
	d.rows = append(d.rows, r)
	return r
}

func (d *display) event(e pipeline.Event) {
	if !e.Leaf {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.row(e.Node)
	if r.started.IsZero() {
		r.started = e.Time
	}
	r.phase, r.message = e.Phase, e.Message
	if e.Phase != pipeline.Running {
		r.ended = e.Time
	}
	if d.live {
		return
	}
	switch {
	case e.Phase == pipeline.Succeeded:
		fmt.Fprintf(d.w, "  %s: done in %s\n", e.Node, r.took(e.Time))
	case e.Message != "":
		fmt.Fprintf(d.w, "  %s: %s: %s\n", e.Node, strings.ToLower(string(e.Phase)), e.Message)
	default:
		fmt.Fprintf(d.w, "  %s: started\n", e.Node)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (r *row) took(now time.Time) string {
	return now.Sub(r.started).Round(100 * time.Millisecond).String()
}

// refresh reads the progress files of running steps and shows what is new.
func (d *display) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.phase != pipeline.Running || r.dir == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(r.dir, "progress"))
		now := strings.TrimSpace(string(raw))
		if err != nil || now == "" || now == r.progress {
			continue
		}
		r.progress = now
		if !d.live {
			fmt.Fprintf(d.w, "  %s: %s\n", r.node, now)
		}
	}
	if d.live {
		d.draw(time.Now())
	}
}

func (d *display) draw(now time.Time) {
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.drawn)
	}
	for _, r := range d.rows {
		mark, end := "•", now
		switch r.phase {
		case pipeline.Succeeded:
			mark, end = "✓", r.ended
		case pipeline.Failed, pipeline.Error:
			mark, end = "✗", r.ended
		}
		fmt.Fprintf(&b, "\r\x1b[K  %s %-28s %-10s %8s  %.60s\n", mark, r.node, r.progress, r.took(end), firstLine(r.message))
	}
	d.drawn = len(d.rows)
	_, _ = io.WriteString(d.w, b.String()) // a terminal that went away shows nothing
}
