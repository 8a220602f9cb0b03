package scripted

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"orchard/datasets/record"
)

// Gold fills in a task's gold patch when its bytes are in a blob.
func Gold(ctx context.Context, t *record.Task, blob func(ctx context.Context, sha256 string) (io.ReadCloser, error)) error {
	if t.GoldPatch.Blob == "" {
		return nil
	}
	r, err := blob(ctx, t.GoldPatch.Blob)
	if err != nil {
		return fmt.Errorf("gold patch of task %s: %w", t.TaskID, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("gold patch of task %s: %w", t.TaskID, err)
	}
	t.GoldPatch = record.Text{Value: string(b), Bytes: int64(len(b))}
	return nil
}

// Follow is a policy whose tasks are made while it serves. load returns the tasks and a
// name that changes when they do; it is asked again, at most every so often, when a
// request comes.
type Follow struct {
	Options Options
	Load    func(ctx context.Context, have string) (name string, tasks []record.Task, err error)
	Every   time.Duration
	Now     func() time.Time

	mu      sync.Mutex
	name    string
	checked time.Time
	server  *Server
}

var _ http.Handler = (*Follow)(nil)

// ServeHTTP answers with the tasks there are now; before there are any it knows none.
func (f *Follow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := f.current(r.Context())
	if err != nil {
		http.Error(w, "scripted policy: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.ServeHTTP(w, r)
}

func (f *Follow) current(ctx context.Context) (*Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.Now(); f.server == nil || now.Sub(f.checked) >= f.Every {
		name, tasks, err := f.Load(ctx, f.name)
		if err != nil {
			return nil, err
		}
		if f.server == nil || name != f.name {
			if f.server, err = New(tasks, f.Options); err != nil {
				return nil, err
			}
		}
		f.name, f.checked = name, now
	}
	return f.server, nil
}
