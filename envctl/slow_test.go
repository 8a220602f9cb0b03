package envctl_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/envctl"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// slow is a runtime whose sandboxes say what they wait for.
type slow struct {
	*plain.Runtime
	message, event string
}

func (s *slow) Get(ctx context.Context, id string) (control.State, error) {
	return s.tell(s.Runtime.Get(ctx, id))
}

func (s *slow) Wait(ctx context.Context, id string) (control.State, error) {
	return s.tell(s.Runtime.Wait(ctx, id))
}

func (s *slow) tell(st control.State, err error) (control.State, error) {
	if st.Phase == control.Pending {
		st.Message = s.message
	}
	return st, err
}

func (s *slow) Events(context.Context, string) ([]control.Event, error) {
	return []control.Event{{At: time.Now(), Type: s.event, Message: "as the kubelet says", Count: 1}}, nil
}

// buffer is written and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A create that takes long says what it waits for, and what it came to.
func TestSlowCreate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, message, event, says, reason string
		code                               int
		args                               []string
	}{
		{"message", "pulling image x", "none", "box pending: pulling image x\n", control.ReasonImagePull, 125, nil},
		{"event", "", "unschedulable", "box pending: unschedulable: as the kubelet says\n", control.ReasonRefused, 126, nil},
		{"in time", "pulling", "none", "box pending: pulling\n", "", 125, []string{"--ready-timeout", "2500ms"}},
		{"stopped", "pulling", "none", "box pending: pulling\n", "stop", 130, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rt := &slow{plain.New(t), c.message, c.event}
			rt.Hold("box")
			set := control.Defaults()
			set.Keys, set.DefaultWorkdir = control.ParseKeys("key"), t.TempDir()
			service, err := control.New(rt, set)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(service)
			defer server.Close()
			defer service.Drain()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs buffer
			p := &envctl.Program{In: strings.NewReader(""), Out: &out, Err: &errs}
			ended := make(chan int, 1)
			go func() {
				ended <- p.Run(ctx, append([]string{"envctl", "--url", server.URL, "--key-file", keyFile(t, "key"), "create", "x", "--id", "box"}, c.args...))
			}()
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(errs.String(), c.says); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("it said %q, want %q", errs.String(), c.says)
				}
			}
			switch c.reason {
			case "":
			case "stop":
				cancel()
			default:
				rt.End("box", c.reason, "because")
			}
			if code := <-ended; code != c.code || out.String() != "" {
				t.Errorf("exit %d, want %d; %q", code, c.code, errs.String())
			}
			if c.reason == "stop" && !strings.HasSuffix(errs.String(), "envctl: stopped\n") {
				t.Errorf("it said %q", errs.String())
			}
			if n := strings.Count(errs.String(), c.says); n != 1 {
				t.Errorf("it said that %d times", n)
			}
			if st, err := rt.Runtime.Get(t.Context(), "box"); err != nil || st.Phase != control.Ended {
				t.Errorf("it was left behind: %+v, %v", st, err)
			}
		})
	}
}
