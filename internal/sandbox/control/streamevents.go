package control

import (
	"io"
	"net/http"

	"orchard/agent/wire"
	"orchard/internal/seal"
)

// events writes server-sent events.
type events struct {
	w     http.ResponseWriter
	at    place
	begun bool
	dead  bool // the client takes no more
}

func (e *events) send(name string, data any) error {
	text, err := seal.JSON(data)
	if err != nil {
		return err
	}
	return e.write("event: " + name + "\nid: " + e.at.String() + "\ndata: " + string(text) + "\n\n")
}

func (e *events) write(text string) error {
	_, err := io.WriteString(e.w, text)
	if err == nil {
		err = http.NewResponseController(e.w).Flush()
	}
	e.dead = e.dead || err != nil
	return err
}

// ping is a comment, which says to everything on the way that somebody is there.
func (e *events) ping() error { return e.write(": ping\n\n") }

// begin says which job this is, once.
func (e *events) begin(job wire.Job) error {
	if e.begun {
		return nil
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	return e.send("job", bare(job))
}

// chunk is a part of an output. The id of its event is where the stream then is.
type chunk struct {
	Offset  int64  `json:"offset"`
	Dropped int64  `json:"dropped,omitempty"`
	Data    []byte `json:"data"`
}

func (e *events) output(o wire.StreamEvent) error {
	at := &e.at.stdout
	if o.Stream == "stderr" {
		at = &e.at.stderr
	}
	*at = o.Offset + int64(len(o.Data))
	return e.send(o.Stream, chunk{o.Offset, o.Dropped, nonNil(o.Data)})
}

func (e *events) exit(job wire.Job) error { return e.send("exit", bare(job)) }

// lost is the whole rest of a stream whose sandbox has ended.
func (e *events) lost(id string, st State) error {
	job := lostJob(id, "", st)
	if err := e.begin(job); err != nil {
		return nil
	}
	return e.exit(job)
}

// bare is a job without its output.
func bare(job wire.Job) jobAnswer {
	v := jobView(job, false)
	v.Stdout, v.Stderr = "", ""
	return v
}
