package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orchard/agent/wire"
)

// streamPing is how often a silent stream says that it is there.
const streamPing = 5 * time.Second

// stream sends what a job has printed from two offsets on, and what it goes on printing,
// until it ends. Every reader reads the spool for itself, so a slow one holds up nobody;
// it may find that the middle of a very long output is gone.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.jobs.release(j)
	f := &follower{job: j, reads: []reading{{name: "stdout", from: j.stdout}, {name: "stderr", from: j.stderr}}}
	for i := range f.reads {
		if err := f.reads[i].start(r.URL.Query()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	return buffered(w, func(out *bufio.Writer) error {
		f.out = json.NewEncoder(out)
		f.flush = func() error { return errors.Join(out.Flush(), control.Flush()) }
		return f.run(r.Context().Done())
	})
}

// reading is how far one output is sent.
type reading struct {
	name string
	from *spool
	at   int64
}

func (r *reading) start(query url.Values) error {
	text := query.Get(r.name)
	if text == "" {
		return nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if printed := r.from.printed(); err != nil || at < 0 || at > printed {
		return badRequest("%s: %q is not a number of bytes within the %d that were printed", r.name, text, printed)
	}
	r.at = at
	return nil
}

// follower sends one client a job's stream.
type follower struct {
	job   *job
	reads []reading
	out   *json.Encoder
	flush func() error
}

func (f *follower) run(gone <-chan struct{}) error {
	if err := f.sendJob(); err != nil {
		return err
	}
	tick := time.NewTicker(streamPing)
	defer tick.Stop()
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for {
		// Asked for before looking, so that nothing comes between unseen.
		over := f.job.ended()
		grown := [2]<-chan struct{}{f.reads[0].from.growth(), f.reads[1].from.growth()}
		more := false
		for i := range f.reads {
			sent, err := f.next(&f.reads[i], block[:])
			if err != nil {
				return err
			}
			more = more || sent
		}
		switch {
		case more:
			continue
		case over:
			return f.sendJob()
		}
		if err := f.flush(); err != nil {
			return err
		}
		select {
		case <-grown[0]:
		case <-grown[1]:
		case <-f.job.done:
		case <-gone:
			return errors.New("the client left")
		case <-tick.C:
			if err := f.out.Encode(wire.StreamEvent{}); err != nil {
				return err
			}
		}
	}
}

func (f *follower) sendJob() error {
	view := f.job.snapshot()
	return errors.Join(f.out.Encode(wire.StreamEvent{Job: &view}), f.flush())
}

// next sends a block of one output, if there is one, and reports whether it moved on.
func (f *follower) next(r *reading, block []byte) (bool, error) {
	event := wire.StreamEvent{Stream: r.name}
	total, head, tail := r.from.kept()
	end := total
	switch {
	case r.at >= total:
		return false, nil
	case r.at < head:
		end = head
	case r.at < total-tail:
		event.Dropped = total - tail - r.at
	}
	event.Offset = r.at + event.Dropped
	n, err := r.from.ReadAt(block[:min(int64(len(block)), end-event.Offset)], event.Offset)
	if errors.Is(err, errDropped) {
		err = nil // overwritten since: the next look sees what is there now
		if n == 0 {
			return true, nil
		}
	}
	if err != nil {
		return false, err
	}
	event.Data = block[:n]
	r.at = event.Offset + int64(n)
	return true, f.out.Encode(event)
}
