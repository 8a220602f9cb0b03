package client_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orchard/envctl/client"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/breaking"
)

// TestMain gives the example the environment of a user.
func TestMain(m *testing.M) {
	if s, ok := service(); ok {
		os.Setenv(client.EnvURL, s.URL)
		os.Setenv(client.EnvKey, s.Key)
	} else if err := flag.Set("test.skip", "^Example"); err != nil {
		panic(err)
	}
	os.Exit(sandboxtest.Main(m))
}

// service is the test's, outside of any test; ok is false where there are no sandboxes.
func service() (s sandboxtest.Service, ok bool) {
	done := make(chan struct{})
	go func() { // a test that fails or skips ends its goroutine
		defer close(done)
		s = sandboxtest.New(outside{})
		ok = true
	}()
	<-done
	return s, ok
}

// outside is as much of a test as the service needs.
type outside struct{ testing.TB }

func (outside) Helper()                   {}
func (outside) Fatal(a ...any)            { fmt.Fprintln(os.Stderr, a...); runtime.Goexit() }
func (outside) Fatalf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); runtime.Goexit() }
func (outside) Skipf(string, ...any)      { runtime.Goexit() }

func connect(t testing.TB, url, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Key: key, Patience: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newBox is a sandbox through url, or through the service itself when that is "".
func newBox(t testing.TB, url string) *client.Sandbox {
	t.Helper()
	s := sandboxtest.New(t)
	box, err := connect(t, s.URL, s.Key).Create(t.Context(), client.Spec{Image: sandboxtest.Image})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if url != "" {
		return connect(t, url, s.Key).Sandbox(box.ID())
	}
	return box
}

// A sandbox through a network on which three of four connections break: it is made once,
// its commands run once, its input arrives once.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	s := sandboxtest.New(t)
	label := fmt.Sprint("flaky-", time.Now().UnixNano())
	box, err := connect(t, breaking.Flaky(t, s.URL), s.Key).Create(t.Context(), client.Spec{Image: sandboxtest.Image, Labels: map[string]string{"test": label}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Delete(context.Background())
	if all, err := connect(t, s.URL, s.Key).List(t.Context(), client.Filter{Labels: "test=" + label}); err != nil || len(all) != 1 {
		t.Errorf("one create made %d sandboxes, %v", len(all), err)
	}
	for i := range 4 {
		r, err := box.Exec(t.Context(), client.Command{Shell: "echo x | tee -a count"})
		if err != nil || string(r.Stdout) != "x\n" {
			t.Errorf("exec %d: %+v, %v", i, r, err)
		}
	}
	r, err := box.Exec(t.Context(), client.Command{Argv: []string{"wc", "-l", "count"}})
	if err != nil || string(r.Stdout) != "4 count\n" {
		t.Errorf("four commands left %q, %v", r.Stdout, err)
	}
	job, err := box.Start(t.Context(), client.Command{Shell: "cat; echo end", StdinOpen: true, Concurrent: true})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0123456789", 30_000)
	if err := job.Feed(t.Context(), strings.NewReader(want)); err != nil {
		t.Errorf("feed: %v", err)
	}
	var out bytes.Buffer
	if r, err := job.Follow(t.Context(), &out, io.Discard); err != nil || r.ExitCode != 0 || out.String() != want+"end\n" {
		t.Errorf("cat of %d bytes printed %d: %+v, %v", len(want), out.Len(), r, err)
	}
}

// A stream goes on where a connection broke: each byte comes once.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	cutter := breaking.NewCutter(t, sandboxtest.New(t).URL)
	box := newBox(t, cutter.URL)
	job, err := box.Start(t.Context(), client.Command{Shell: `for i in $(seq 400); do echo line $i; echo err $i >&2; sleep 0.005; done; exit 3`})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	n := 0
	info, err := job.Stream(t.Context(), client.Offsets{}, func(c client.Chunk) error {
		to := &out
		if c.Stream == "stderr" {
			to = &errs
		}
		if int(c.Offset) != to.Len() || c.Dropped != 0 {
			t.Errorf("chunk of %s at %d after %d bytes, %d dropped", c.Stream, c.Offset, to.Len(), c.Dropped)
		}
		to.Write(c.Data)
		if n++; n%40 == 0 {
			cutter.Cut()
		}
		return nil
	})
	if err != nil || info.ExitCode == nil || *info.ExitCode != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	var want strings.Builder
	for i := 1; i <= 400; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if out.String() != want.String() || errs.String() != strings.ReplaceAll(want.String(), "line", "err") {
		t.Errorf("%d bytes of %d, %d of stderr", out.Len(), want.Len(), errs.Len())
	}
	if cutter.Connections() < 4 {
		t.Errorf("only %d connections: nothing was cut", cutter.Connections())
	}
	stop := errors.New("enough")
	if _, err := job.Stream(t.Context(), client.Offsets{}, func(client.Chunk) error { return stop }); err != stop {
		t.Errorf("an error of the caller's own: %v", err)
	}
}

// Every error that callers tell apart has its type.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := sandboxtest.New(t)
	c, box := connect(t, s.URL, s.Key), newBox(t, "")
	ctx := t.Context()
	var (
		notFound *client.NotFound
		gone     *client.Gone
		refused  *client.Refused
		denied   *client.Denied
		conflict *client.Conflict
		away     *client.Unavailable
		failure  *client.Failure
	)
	fails := func(what string, err error, as any) {
		t.Helper()
		if err == nil || !errors.As(err, as) {
			t.Errorf("%s: %T %v, want %T", what, err, err, as)
		}
	}
	_, err := c.Sandbox("nobody").Exec(ctx, client.Command{Shell: "true"})
	fails("no such sandbox", err, &notFound)
	_, err = c.Job("nonsense").Info(ctx)
	fails("no such job", err, &notFound)
	_, err = c.Create(ctx, client.Spec{Image: sandboxtest.Image, Memory: "9x"})
	fails("a malformed field", err, &refused)
	_, err = connect(t, s.URL, "wrong").List(ctx, client.Filter{})
	fails("a wrong key", err, &denied)
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the key is in %v", err)
	}
	_, err = c.Create(ctx, client.Spec{Image: sandboxtest.Image, ID: box.ID(), Memory: "3Mi"})
	fails("an id that is taken", err, &conflict)
	_, err = box.Exec(ctx, client.Command{Shell: "true", IdempotencyKey: "k"})
	if err != nil {
		t.Error(err)
	}
	_, err = box.Exec(ctx, client.Command{Shell: "false", IdempotencyKey: "k"})
	fails("a key of another command", err, &conflict)
	none, err := client.New(client.Options{URL: "http://127.0.0.1:1", Patience: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.List(ctx, client.Filter{})
	fails("no service", err, &away)
	_, err = box.Get(ctx, "/nothing")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	_, err = box.Get(ctx, "/tmp")
	fails("a folder as a file", err, &failure)
	if _, err := box.Exec(ctx, client.Command{}); err == nil {
		t.Error("a command without a command ran")
	}
	job, err := box.Start(ctx, client.Command{Shell: "sleep 300", Concurrent: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = job.Wait(ctx)
	fails("a sandbox that ended under its job", err, &gone)
	_, err = box.Exec(ctx, client.Command{Shell: "true"})
	if !errors.As(err, &gone) && !errors.As(err, &notFound) {
		t.Errorf("a deleted sandbox: %v", err)
	}
	if err := box.KeepAlive(ctx, time.Minute); err == nil {
		t.Error("a deleted sandbox is kept alive")
	}
}

// A create whose caller leaves makes nothing that stays.
func TestCreateAbandoned(t *testing.T) {
	t.Parallel()
	s := sandboxtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	label := fmt.Sprint("left-", time.Now().UnixNano())
	spec := client.Spec{Image: sandboxtest.Image, Labels: map[string]string{"test": label}}
	c, err := client.New(client.Options{URL: s.URL, Key: s.Key, HTTP: &http.Client{Transport: leaver{cancel, new(atomic.Bool)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	all, err := connect(t, s.URL, s.Key).List(t.Context(), client.Filter{Labels: "test=" + label})
	if err != nil || len(all) != 0 {
		t.Errorf("left behind %v, %v", all, err)
	}
}

// leaver loses the answer of the first create and cancels its caller.
type leaver struct {
	cancel context.CancelFunc
	lost   *atomic.Bool
}

func (l leaver) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && r.URL.Path == "/sandboxes" && !l.lost.Swap(true) {
		resp.Body.Close()
		l.cancel()
		return nil, context.Canceled
	}
	return resp, err
}
