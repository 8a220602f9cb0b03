package kube

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ktesting "k8s.io/client-go/testing"

	"orchard/agent/wire"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/agentbin"
	"orchard/internal/seal"
)

// house is a fake cluster with one replica, whose Pods' addresses all lead to where it says.
type house struct {
	*fakeCluster
	r   *Runtime
	key ed25519.PrivateKey
	to  atomic.Pointer[string]
}

func newHouse(t *testing.T) *house {
	h := &house{fakeCluster: newFake(t), key: newKey(t)}
	h.r = h.start(func(o *Options) {
		o.Key = h.key
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, *h.to.Load())
		}
	})
	return h
}

// inhabit starts a sandbox and, as the kubelet would, its agent, a real one.
func (h *house) inhabit(t *testing.T, id string) {
	t.Helper()
	if _, err := h.r.Start(t.Context(), plainSpec(id)); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	h.change(id, func(p *corev1.Pod) { pod = p.DeepCopy() })
	dir, err := os.MkdirTemp("", "house")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cmd := osexec.Command(agentbin.Path(t), "--listen", "fd:3", "--cwd", dir, "--spool", dir+"/spool", "--closed", "", "--env", "HERE=house")
	cmd.ExtraFiles, cmd.Env = []*os.File{f}, []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.ValueFrom != nil {
			v.Value = string(pod.UID)
		}
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	h.to.Store(&address)
	h.run(id)
}

// run says that the container of a sandbox runs, at an address.
func (h *house) run(id string) {
	h.change(id, func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "198.18.0.1", ContainerStatuses: []corev1.ContainerStatus{{
			Name: containerName, ContainerID: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	})
}

// All that goes to an agent goes over TLS, to a real one too: commands, streams, files, tar,
// terminals and tunnels; and what proves who it is is not for commands.
func TestAgentProvesItself(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.inhabit(t, "a")
	reach(t, h.r, "a", control.Ready)
	out, code := exec(t, h.r, "a", "/bin/sh", "-c", "echo $HERE; env")
	if code != 0 || !strings.HasPrefix(out, "house\n") || strings.Contains(out, "ORCHARD_AGENT") {
		t.Errorf("exit code %d: %s", code, out)
	}
	rt, base, err := h.r.Agent(t.Context(), "a")
	if err != nil || !strings.HasPrefix(base, "https://") {
		t.Fatalf("it is reached at %q: %v", base, err)
	}
	send := func(status int, method, path, body string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		if resp.StatusCode != status {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	text := func(resp *http.Response) string {
		t.Helper()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	send(200, "PUT", "/v1/files?path=f", strings.Repeat("x", 1<<20))
	if got := text(send(200, "GET", "/v1/files?path=f", "")); len(got) != 1<<20 {
		t.Errorf("a file of %d bytes", len(got))
	}
	if got := text(send(200, "GET", "/v1/tar?path=.", "")); !strings.Contains(got, "xxx") {
		t.Errorf("a tar of %d bytes", len(got))
	}
	send(200, "POST", "/v1/jobs", `{"id":"j","argv":["echo","hello"],"timeout_ms":60000}`)
	if got := text(send(200, "GET", "/v1/jobs/j/stream", "")); !strings.Contains(got, "aGVsbG8K") {
		t.Errorf("streamed %s", got)
	}
	send(101, "GET", "/v1/terminal", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")

	// A tunnel, and that its end is one: the program says goodbye and closes.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprint(c, "goodbye")
			c.Close()
		}
	}()
	made := text(send(200, "POST", "/v1/ports", fmt.Sprintf(`{"port":%d,"seconds":60}`, l.Addr().(*net.TCPAddr).Port)))
	_, rest, _ := strings.Cut(made, `"token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	if got := text(send(101, "GET", "/v1/tunnel?token="+token, "", "Connection", "Upgrade", "Upgrade", wire.TunnelProtocol)); got != "goodbye" {
		t.Errorf("through the tunnel: %q", got)
	}
}

// listener hears what comes to an address, as is or over TLS.
type listener struct {
	mu    sync.Mutex
	heard bytes.Buffer
	calls int
}

// eavesdrop listens, over TLS if config is not nil, and answers everything with success.
func eavesdrop(t *testing.T, config *tls.Config) (*listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	address, on := l.Addr().String(), &listener{}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go on.hear(c)
		}
	}()
	return on, address
}

func (l *listener) hear(c net.Conn) {
	defer c.Close()
	l.mu.Lock()
	l.calls++
	l.mu.Unlock()
	block := make([]byte, 4096)
	for {
		n, err := c.Read(block)
		l.mu.Lock()
		l.heard.Write(block[:n])
		l.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"); err != nil {
			return
		}
	}
}

func (l *listener) said() (string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard.String(), l.calls
}

// Whoever has got the address of a sandbox is told nothing, and what it says is no answer.
func TestImpostor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.inhabit(t, "a")
	reach(t, h.r, "a", control.Ready)
	for name, config := range map[string]*tls.Config{
		"plain":               nil,
		"another key":         anyAgent(newKey(t)),
		"another Pod's agent": {GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(h.key, "another") }},
	} {
		on, address := eavesdrop(t, config)
		h.to.Store(&address)
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			h.r.http.CloseIdleConnections()
			_, err = tryExec(t.Context(), h.r, "a", "echo", "the secret")
			if _, calls := on.said(); calls > 0 && err != nil {
				break
			} // else it went over a connection to the agent that had just been in use, whoever called besides
		}
		if err == nil || !strings.Contains(err.Error(), "sandbox a: who answers at its address does not prove to be its agent") {
			t.Errorf("%s: %v", name, err)
		}
		heard, calls := on.said()
		if calls == 0 {
			t.Errorf("%s: nobody came, so this shows nothing", name)
		}
		if config == nil { // a handshake, which is no secret
			if !strings.HasPrefix(heard, "\x16\x03") || strings.Contains(heard, "/v1/") || strings.Contains(heard, "Orchard1") {
				t.Errorf("%s heard %q", name, heard)
			}
		} else if heard != "" {
			t.Errorf("%s heard %q", name, heard)
		}
	}
	// Neither is a new sandbox at that address ready, in any replica's eyes.
	on, address := eavesdrop(t, nil)
	h.to.Store(&address)
	if _, err := h.r.Start(t.Context(), plainSpec("b")); err != nil {
		t.Fatal(err)
	}
	h.run("b")
	until(t, "the impostor to be asked", func() (bool, string) { _, calls := on.said(); return calls > 2, "" })
	if st, err := h.r.Get(t.Context(), "b"); err != nil || st.Phase != control.Pending {
		t.Errorf("it is %s: %v", st.Phase, err)
	}
}

func certificate(key ed25519.PrivateKey, name string) (*tls.Certificate, error) {
	seed, err := wire.IdentitySeed(key, name)
	if err != nil {
		return nil, err
	}
	return wire.Certificate(seed)
}

// A Pod that an older controller made is reached as it was; no other is, whatever becomes
// of its annotations.
func TestPodsOfOlderControllers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	on, address := eavesdrop(t, nil)
	h.to.Store(&address)
	for _, c := range []struct {
		id     string
		change func(*corev1.Pod)
		ready  bool
	}{
		{"old", forgo, true},
		{"stripped", func(p *corev1.Pod) { delete(p.Annotations, annotIdentity) }, false},
		{"new", func(*corev1.Pod) {}, false},
	} {
		h.mu.Lock()
		h.hook = func(a ktesting.Action) error {
			if create, ok := a.(ktesting.CreateAction); ok && a.GetResource().Resource == "pods" {
				c.change(create.GetObject().(*corev1.Pod))
			}
			return nil
		}
		h.mu.Unlock()
		_, before := on.said()
		if _, err := h.r.Start(t.Context(), plainSpec(c.id)); err != nil {
			t.Fatal(err)
		}
		h.run(c.id)
		if c.ready {
			reach(t, h.r, c.id, control.Ready)
			continue
		}
		until(t, "somebody to come", func() (bool, string) { _, calls := on.said(); return calls > before+2, "" })
		if st, err := h.r.Get(t.Context(), c.id); err != nil || st.Phase != control.Pending {
			t.Errorf("sandbox %s is %s: %v", c.id, st.Phase, err)
		}
	}
	// Not even somebody who names the scheme is let through.
	e, _ := h.r.known("new")
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+e.uid+"/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.r.signed(e).RoundTrip(req); err == nil || !strings.Contains(err.Error(), "sandbox new: its agent has a name to prove") {
		t.Errorf("reached plainly: %v", err)
	}
}

// A claimed Pod's agent keeps its name, so that every replica knows it, and tickets have none.
func TestIdentityOutlivesAClaim(t *testing.T) {
	t.Parallel()
	c := newPoolCluster(t)
	all := c.replicas(2)
	setPool(t, poolNamed("p", "alice", 1), all...)
	if _, err := all[0].Start(t.Context(), ownedBy("s-"+seal.Random(4), "alice")); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, pod := range c.pods() {
		name := identityOf(&pod)
		if isTicket(&pod) != (name == "") || names[name] {
			t.Errorf("Pod %s (%s) proves %q", pod.Name, pod.Labels[labelApp], name)
		}
		names[name] = true
	}
	for _, r := range all {
		until(t, "the claimed sandbox", func() (bool, string) {
			list, err := r.List(t.Context())
			return err == nil && len(list) == 1 && list[0].Phase == control.Ready, fmt.Sprint(list, err)
		})
	}
}
