package scale_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"orchard/agent/wire"
)

// crop is a farm over a cluster of memory, at a port of its own.
type crop struct {
	*farm
	client *fake.Clientset
	key    ed25519.PrivateKey
	port   string
}

func plant(t *testing.T, pods ...*core.Pod) crop {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	for _, p := range pods {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, core.EnvVar{Name: "ORCHARD_AGENT_KEYS", Value: wire.FormatPublicKey(key.Public().(ed25519.PublicKey))})
		if name := p.Annotations["identity"]; name != "" {
			seed, err := wire.IdentitySeed(key, name)
			if err != nil {
				t.Fatal(err)
			}
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, core.EnvVar{Name: "ORCHARD_AGENT_IDENTITY", Value: wire.FormatSeed(seed)})
		}
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	f := newFarm(client)
	if err := f.follow(t.Context(), "here"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = f.serve(l) }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := crop{f, client, key, port}
	until(t, "agents", func() string {
		if n := f.count(); n != len(pods) {
			return fmt.Sprint(n)
		}
		return ""
	})
	return c
}

func podAt(ip, identity string, lease time.Duration) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "at-" + ip, Namespace: "here", UID: types.UID("uid-" + ip), Annotations: map[string]string{"identity": identity}},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "sandbox", Env: []core.EnvVar{
			{Name: "ORCHARD_AGENT_UID", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
			{Name: "ORCHARD_AGENT_LEASE", Value: lease.String()},
		}}}},
		Status: core.PodStatus{Phase: core.PodRunning, PodIP: ip},
	}
}

// ask sends one request as a controller does that takes ip for the Pod uid with that identity.
func (c crop) ask(t *testing.T, ip, uid, identity, method, path string, body any) (int, string, error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	base, scheme := &http.Transport{DisableKeepAlives: true}, "http"
	if identity != "" {
		scheme = "https"
		if base.TLSClientConfig, err = wire.DialTLS(c.key, identity); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &wire.Transport{Base: base, Key: c.key, UID: uid}, Timeout: 30 * time.Second}
	req, err := http.NewRequest(method, scheme+"://"+net.JoinHostPort(ip, c.port)+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var b strings.Builder
	_, err = fmt.Fprint(&b, readAll(t, resp))
	return resp.StatusCode, b.String(), err
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Each address answers for its own Pod: with its identity, and to its own signatures alone.
func TestFarmAnswersAsEachPod(t *testing.T) {
	t.Parallel()
	c := plant(t, podAt("127.64.9.1", "", 0), podAt("127.64.9.2", "two", 0))
	for _, g := range []struct {
		name, ip, uid, identity string
		want                    int // 0: no answer
	}{
		{"plain", "127.64.9.1", "uid-127.64.9.1", "", 200},
		{"another's signature", "127.64.9.1", "uid-127.64.9.2", "", 401},
		{"identity", "127.64.9.2", "uid-127.64.9.2", "two", 200},
		{"another's identity", "127.64.9.2", "uid-127.64.9.2", "three", 0},
		{"no identity asked for", "127.64.9.2", "uid-127.64.9.2", "", 400},
		{"nobody's address", "127.64.9.3", "uid-127.64.9.3", "", 0},
	} {
		if got, body, err := c.ask(t, g.ip, g.uid, g.identity, "GET", "/v1/jobs", nil); got != g.want || (err == nil) != (g.want != 0) {
			t.Errorf("%s: %d %s, %v; want %d", g.name, got, body, err, g.want)
		}
	}
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.64.9.1", c.port), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		conn.Close()
		t.Error("a Pod without an identity speaks TLS")
	}
}

// Commands run, in their order, each id once; their code and output come back.
func TestFarmRunsCommands(t *testing.T) {
	t.Parallel()
	c, ip := plant(t, podAt("127.64.9.4", "", 0)), "127.64.9.4"
	file := filepath.Join(t.TempDir(), "log")
	exec := func(id, shell, wait string) (j wire.Job) {
		code, body, err := c.ask(t, ip, "uid-"+ip, "", "POST", "/v1/jobs?wait="+wait, wire.ExecRequest{ID: id, Shell: shell, TimeoutMS: 20_000})
		if err != nil || code != 200 || json.Unmarshal([]byte(body), &j) != nil {
			t.Fatalf("%d %s, %v", code, body, err)
		}
		return j
	}
	gate := file + ".gate"
	if j := exec("a", "while ! [ -e "+gate+" ]; do sleep 0.05; done; echo a >>"+file, "0"); j.State == wire.Done {
		t.Errorf("%+v", j)
	}
	exec("b", "echo b >>"+file, "0")
	exec("b", "echo b >>"+file, "0") // the same again
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := exec("c", "cat "+file+"; echo no >&2; exit 3", "20")
	if j.State != wire.Done || *j.ExitCode != 3 || string(j.Stdout.Data) != "a\nb\n" || string(j.Stderr.Data) != "no\n" {
		t.Errorf("%+v %s", j, j.Stdout.Data)
	}
	if _, body, _ := c.ask(t, ip, "uid-"+ip, "", "GET", "/v1/jobs/b", nil); !strings.Contains(body, `"exit_code":0`) {
		t.Errorf("job b: %s", body)
	}
	if n := c.ran.Load(); n != 3 {
		t.Errorf("%d commands ran, want 3", n)
	}
}

// A lease holds as long as heartbeats come, and then the Pod ends as one whose agent exits.
func TestFarmEndsLeases(t *testing.T) {
	t.Parallel()
	c := plant(t, podAt("127.64.9.5", "", time.Hour), podAt("127.64.9.6", "", time.Hour))
	for ip, lease := range map[string]float64{"127.64.9.5": 3600, "127.64.9.6": 0.01} {
		if code, body, err := c.ask(t, ip, "uid-"+ip, "", "POST", "/v1/lease", wire.Lease{Seconds: lease}); code != 200 || !strings.Contains(body, "expires_us") {
			t.Fatalf("%d %s, %v", code, body, err)
		}
	}
	until(t, "an end", func() string {
		p, err := c.client.CoreV1().Pods("here").Get(context.Background(), "at-127.64.9.6", meta.GetOptions{})
		if err != nil || p.Status.Phase != core.PodFailed || p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 44 {
			return fmt.Sprintf("%v %+v", err, p.Status)
		}
		return ""
	})
	if n := c.count(); n != 1 {
		t.Errorf("%d agents are left, want 1", n)
	}
}
