package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"orchard/agent"
	"orchard/agent/wire"
)

// beAgent makes the test binary an agent: it must own all children of its process,
// which the test process cannot.
const beAgent = "BE_AN_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) == "" {
		code := m.Run()
		os.RemoveAll(builtDir)
		os.Exit(code)
	}
	os.Unsetenv(beAgent)
	ctx, stop := agent.SignalContext(context.Background())
	defer stop()
	cfg, err := agent.ParseConfig(os.Args[1:], os.Environ(), os.Stderr)
	if err == nil {
		err = agent.Run(ctx, cfg, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(agent.ExitCode(err))
}

// box is a running agent and a client that signs for it.
type box struct {
	t      testing.TB
	cmd    *exec.Cmd
	exited chan error
	http   *http.Client
	key    ed25519.PrivateKey
	socket string
	dir    string // working folder
	spool  string
	log    *bytes.Buffer // to be read after the end only
}

const testUID = "3f1c9a52-test"

// start runs this test binary as an agent. wrap is put in front of the command line.
func start(t testing.TB, wrap []string, flags ...string) *box {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, self, wrap, flags...)
}

func startProgram(t testing.TB, program string, wrap []string, flags ...string) *box {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // wrap may change the user
		t.Fatal(err)
	}
	b := &box{
		t: t, key: private, socket: dir + "/socket", dir: dir + "/work", spool: dir + "/spool",
		exited: make(chan error, 1), log: &bytes.Buffer{},
	}
	argv := append(wrap, append([]string{program, "--listen", "unix:" + b.socket, "--uid", testUID,
		"--keys", wire.FormatPublicKey(public), "--cwd", b.dir, "--spool", b.spool}, flags...)...)
	b.cmd = exec.Command(argv[0], argv[1:]...)
	b.cmd.Env = append(os.Environ(), beAgent+"=1")
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { b.exited <- b.cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		b.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			b.cmd.Process.Kill()
			<-ended
			t.Error("the agent did not end after SIGTERM")
		}
		if t.Failed() {
			t.Logf("agent's log:\n%s", b.log)
		}
	})
	b.http = b.client(testUID, private)
	b.awaitHealthy()
	return b
}

// client signs for uid with key.
func (b *box) client(uid string, key ed25519.PrivateKey) *http.Client {
	dialer := &net.Dialer{}
	base := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", b.socket)
		},
	}
	b.t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: &wire.Transport{Base: base, Key: key, UID: uid}}
}

func (b *box) awaitHealthy() {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", b.socket)
		if err != nil {
			continue
		}
		fmt.Fprint(conn, "GET /v1/health HTTP/1.1\r\nHost: agent\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err == nil && strings.Contains(line, "200") {
			return
		}
	}
	b.t.Fatalf("the agent never became healthy:\n%s", b.log)
}

// do sends a request and reads the whole answer.
func (b *box) do(method, path string, body io.Reader) (*http.Response, []byte) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://agent"+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, text
}

// want sends a request that must succeed with status, and decodes the answer into out.
func (b *box) want(status int, method, path string, in, out any) {
	b.t.Helper()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			b.t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	resp, text := b.do(method, path, body)
	if resp.StatusCode != status {
		b.t.Fatalf("%s %s: got %d %.500s, want %d", method, path, resp.StatusCode, text, status)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			b.t.Fatalf("%s %s: %v in %.500q", method, path, err, text)
		}
	}
}

var jobNumber atomic.Int64

// newID is a job id that no test has had.
func newID() string { return fmt.Sprintf("job-%d", jobNumber.Add(1)) }

// submit fills in id and timeout and posts the command, waiting up to a minute for its end.
func (b *box) submit(req wire.ExecRequest, wait string) wire.Job {
	b.t.Helper()
	if req.ID == "" {
		req.ID = newID()
	}
	if req.TimeoutMS == 0 {
		req.TimeoutMS = 60_000
	}
	var j wire.Job
	b.want(200, "POST", "/v1/jobs?wait="+wait, req, &j)
	return j
}

// run runs a command to its end.
func (b *box) run(req wire.ExecRequest) wire.Job {
	b.t.Helper()
	j := b.submit(req, "100")
	if j.ExitCode == nil {
		b.t.Fatalf("the job has not ended: %+v", j)
	}
	return j
}

// sh runs a shell command that must exit with 0, and returns its stdout.
func (b *box) sh(format string, args ...any) string {
	b.t.Helper()
	j := b.run(wire.ExecRequest{Shell: fmt.Sprintf(format, args...)})
	if *j.ExitCode != 0 {
		b.t.Fatalf("%s: exit %d\n%s%s", j.Command, *j.ExitCode, j.Stdout.Data, j.Stderr.Data)
	}
	return string(j.Stdout.Data)
}

// job asks for a job until it is in one of the states.
func (b *box) await(id string, states ...string) wire.Job {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		var j wire.Job
		b.want(200, "GET", "/v1/jobs/"+id, nil, &j)
		for _, state := range states {
			if j.State == state {
				return j
			}
		}
	}
	b.t.Fatalf("job %s did not become %v", id, states)
	return wire.Job{}
}

// put uploads text; get downloads it.
func (b *box) put(path, text string) {
	b.t.Helper()
	resp, body := b.do("PUT", "/v1/files?path="+url.QueryEscape(path), strings.NewReader(text))
	if resp.StatusCode != 200 {
		b.t.Fatalf("put %q: %d %s", path, resp.StatusCode, body)
	}
}

func (b *box) get(path string) string {
	b.t.Helper()
	resp, body := b.do("GET", "/v1/files?path="+url.QueryEscape(path), nil)
	if resp.StatusCode != 200 {
		b.t.Fatalf("get %q: %d %s", path, resp.StatusCode, body)
	}
	return string(body)
}

// alive reports whether a process whose command line contains text exists.
func alive(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			return true
		}
	}
	return false
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
