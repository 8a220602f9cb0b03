package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube/grants"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What a Pod's annotation grants is open to programs with that Pod's environment, from
// that Pod's address.
func TestServe(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer web.Close()
	l, ops := listen(t), listen(t)
	token := grants.NewToken()
	sealed, err := egress.Seal(egress.Grant{Sandbox: "one", UID: "u-1", Generation: 1, TokenSum: egress.TokenSum(token), Rules: []egress.Rule{{CIDR: "127.0.0.1"}}}, private)
	if err != nil {
		t.Fatal(err)
	}
	env := grants.Env(l.Addr().String(), "one", token)
	client := fake.NewClientset(&core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "sandbox-one", Namespace: "boxes", UID: "u-1", Labels: map[string]string{"app": "sandbox"}, Annotations: map[string]string{grants.Annotation: sealed}},
		Status:     core.PodStatus{Phase: core.PodRunning, PodIP: "127.0.0.2"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, ops, Config{Client: client, Namespace: "boxes", Keys: []ed25519.PublicKey{public}, Closed: []netip.Prefix{}, Drain: time.Second})
	}()
	get := func(c *http.Client, target string) string {
		resp, err := c.Get(target)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(b), errors.Unwrap(err))
	}
	deadline := time.After(30 * time.Second)
	for !strings.HasPrefix(get(http.DefaultClient, "http://"+ops.Addr().String()+"/ready"), "200") {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-deadline:
			t.Fatal("not ready")
		case <-time.After(time.Millisecond):
		}
	}
	proxy, err := url.Parse(env["http_proxy"])
	if err != nil {
		t.Fatal(err)
	}
	from := func(address string) *http.Client {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DialContext: d.DialContext, DisableKeepAlives: true}}
	}
	if got := get(from("127.0.0.2"), web.URL); !strings.HasPrefix(got, "200 hello") {
		t.Errorf("granted: %q", got)
	}
	if got := get(from("127.0.0.3"), web.URL); !strings.HasPrefix(got, "403 egress: nothing is granted to 127.0.0.3") {
		t.Errorf("another address: %q", got)
	}
	if got := get(http.DefaultClient, "http://"+ops.Addr().String()+"/metrics"); !strings.Contains(got, `orchard_egress_requests_total{result="open"} 1`) {
		t.Errorf("metrics: %s", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
