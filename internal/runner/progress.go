package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"orchard/datasets/record"
	"orchard/internal/whole"
)

const (
	liveEvery = 500 * time.Millisecond
	slowEvery = 5 * time.Second
)

// Progress is the content of $ORCHARD_PROGRESS_FILE: how far a stage is. The file is
// replaced whole, at most twice a second.
type Progress struct {
	Stage    string           `json:"stage"`
	RunID    string           `json:"run_id"`
	Shard    string           `json:"shard,omitempty"`
	RowsRead int64            `json:"rows_read"` // of a Batch stage
	Units    UnitCounts       `json:"units"`
	Outcomes map[string]int64 `json:"outcomes"`
	Dropped  map[string]int64 `json:"dropped"`
	Usage    record.Usage     `json:"usage"`
	DurMS    int64            `json:"dur_ms"`
	Over     bool             `json:"over"`
}

// finished is how many units need nothing more.
func (p Progress) finished() int64 { return p.Units.Done + p.Units.Reused }

// watch shows the job's progress until the returned function is called, which shows
// it a last time.
func (j *job) watch() (stop func()) {
	w := watcher{job: j, argo: j.deps.Getenv("ARGO_PROGRESS_FILE"), live: j.deps.Getenv("ORCHARD_PROGRESS_FILE")}
	if f := j.terminal(); f != nil {
		w.terminal = f
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.show(false)
			case <-quit:
				w.show(true)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// terminal is stderr when people look at it, else nil.
func (j *job) terminal() *os.File {
	if f, ok := j.deps.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// watcher is where progress goes. Trouble with it is told once and stops no work.
type watcher struct {
	job        *job
	terminal   io.Writer
	argo, live string
	slow       time.Time // of the last slow output
	complained bool
}

func (w *watcher) show(last bool) {
	p := w.job.progress()
	p.Over = last
	if w.terminal != nil {
		fmt.Fprintf(w.terminal, "\r\x1b[K%s", p.line())
		if last {
			fmt.Fprint(w.terminal, "\r\x1b[K") // the summary follows
		}
	}
	if w.live != "" {
		b, err := json.Marshal(p)
		if err == nil {
			err = whole.WriteBytes(w.live, 0o644, append(b, '\n'))
		}
		w.complain(err)
	}
	now := w.job.deps.Now()
	if !last && now.Sub(w.slow) < slowEvery {
		return
	}
	w.slow = now
	if w.argo != "" && p.Units.Total > 0 {
		w.complain(os.WriteFile(w.argo, fmt.Appendf(nil, "%d/%d\n", p.finished(), p.Units.Total), 0o644))
	}
	if w.terminal == nil && !last {
		w.job.log.Info().Int64("finished", p.finished()).Int64("total", p.Units.Total).Msg(p.line())
	}
}

func (w *watcher) complain(err error) {
	if err != nil && !w.complained {
		w.complained = true
		w.job.log.Warn().Err(err).Msg("progress cannot be written; the work goes on")
	}
}

// line is the progress for people.
func (p Progress) line() string {
	s := fmt.Sprintf("%s %d/%d", p.Stage, p.finished(), p.Units.Total)
	if p.Units.Total == 0 {
		s = fmt.Sprintf("%s %d rows", p.Stage, p.RowsRead)
	}
	if len(p.Outcomes) > 0 {
		s += "  " + counts(p.Outcomes)
	}
	if len(p.Dropped) > 0 {
		s += "  dropped: " + counts(p.Dropped)
	}
	if p.Units.Infra > 0 {
		s += fmt.Sprintf("  in trouble: %d", p.Units.Infra)
	}
	return s + "  " + (time.Duration(p.DurMS) * time.Millisecond).Round(time.Second).String()
}
