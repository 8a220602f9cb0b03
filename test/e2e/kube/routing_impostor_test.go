package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Impostor is a Pod that has got the address of a sandbox, and waits on the agent's port for what
// is the sandbox's. It speaks TLS, with a certificate of its own, to those who begin with that, and
// HTTP to others; it says yes to everything, and keeps all that it is told.
type Impostor struct {
	t    testing.TB
	pod  *core.Pod
	addr string
	mu   sync.Mutex
	told bytes.Buffer
	came map[string]int // by address
}

// NewImpostor gives a Pod the address of a sandbox, as packets go, while the cluster still has it
// as the sandbox's: that loses it, and the controllers forget where it was.
func NewImpostor(t testing.TB, id string) *Impostor {
	t.Helper()
	box := awaitPhase(t, sandboxNamespace, "sandbox-"+id, core.PodRunning)
	i := &Impostor{t: t, addr: box.Status.PodIP, came: map[string]int{}}
	i.pod = RunPod(t, Namespace(t), "impostor", bareImage, nil, "/bare", "sleep")
	raw, key := certificate(t, i.addr, "agent")
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
	InNetworkOf(t, *box, "ip", "address", "flush", "dev", "eth0")
	InNetworkOf(t, *i.pod, "ip", "address", "add", i.addr+"/32", "dev", "eth0")
	l := ListenIn(t, *i.pod, net.JoinHostPort(i.addr, "9090"))
	for _, c := range controllerPods(t.Context(), t) {
		InNetworkOf(t, c, "ip", "neighbour", "flush", "to", i.addr)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go i.talk(c, config)
		}
	}()
	return i
}

// Leave gives the address up.
func (i *Impostor) Leave() {
	i.t.Helper()
	InNetworkOf(i.t, *i.pod, "ip", "address", "delete", i.addr+"/32", "dev", "eth0")
}

// Met is how often somebody at addr came.
func (i *Impostor) Met(addr string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came[addr]
}

func (i *Impostor) talk(c net.Conn, config *tls.Config) {
	defer c.Close()
	from, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // it is one
	i.mu.Lock()
	i.came[from]++
	i.mu.Unlock()
	in := bufio.NewReader(c)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	var talk net.Conn = peeked{c, in}
	const handshake = 0x16
	if first[0] == handshake {
		talk = tls.Server(talk, config)
	}
	const yes = `{"state":"done","exit_code":0,"stdout":{"data":"aW1wb3N0b3I=","bytes":8}}`
	buffer := make([]byte, 64<<10)
	for {
		n, err := talk.Read(buffer)
		i.mu.Lock()
		i.told.Write(buffer[:n])
		i.mu.Unlock()
		if err == nil {
			_, err = fmt.Fprintf(talk, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(yes), yes)
		}
		if err != nil {
			return // the other side may leave as it likes
		}
	}
}

// Told is all that came, as far as it could be read.
func (i *Impostor) Told() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.told.String()
}

// peeked begins with what was looked at already.
type peeked struct {
	net.Conn
	in io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// E1: a sandbox is gone, somebody else has its address, and no controller knows it yet. The other
// is told nothing of a command, and what it says is not believed; once it is known, the command
// is lost.
func TestE1_AnotherAtTheAddressIsToldNothing(t *testing.T) {
	t.Parallel()
	AllReady(t)
	s, controllers := Begin(t, Roomy(shImage)), controllerPods(t.Context(), t)
	for _, url := range Replicas(t) { // each has a connection to the agent
		Exec(t, url, s.ID(), "echo before")
	}
	i := NewImpostor(t, s.ID())
	const secret = "e1-nobody-else-is-to-know"
	answers := make(chan Answer, len(controllers))
	for _, c := range controllers {
		go func() {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			body := map[string]any{"command": "echo " + secret, "stdin": secret, "wait": true}
			a, err := Request(ctx, t, "POST", "http://"+c.Status.PodIP+":8000/sandboxes/"+s.ID()+"/exec", body)
			if err != nil {
				a.Body = []byte(err.Error())
			}
			answers <- a
		}()
	}
	Eventually(t, "every controller at the address", func(context.Context) string {
		var missing []string
		for _, c := range controllers {
			if i.Met(c.Status.PodIP) == 0 {
				missing = append(missing, c.Name)
			}
		}
		return strings.Join(missing, " ")
	})
	early := len(answers)
	i.Leave() // the address may be given to a Pod as soon as that of the sandbox is gone
	now := int64(0)
	if err := API(t).CoreV1().Pods(sandboxNamespace).Delete(t.Context(), "sandbox-"+s.ID(), meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	for range controllers {
		var j Job
		if a := <-answers; a.Status == http.StatusServiceUnavailable {
			continue // not known in time: to be asked again
		} else if into(t, a, &j); j.Status != "failed" || j.Reason != "lost" || j.ExitCode != nil {
			t.Errorf("the command for what is not there: %v", j)
		}
	}
	if told := i.Told(); strings.Contains(told, secret) || strings.Contains(told, "/v1/jobs") {
		t.Errorf("%d were answered at once, and the other was told %q", early, told)
	}
	FailedAs(t, s.ID(), "lost", true)
}
