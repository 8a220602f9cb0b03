package kube_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resolvedTo makes names that the cluster resolves to an address: Services without a cluster IP.
func resolvedTo(t testing.TB, ns, address string, short ...string) (full []string) {
	t.Helper()
	for _, name := range short {
		label := map[string]string{discovery.LabelServiceName: name}
		if _, err := API(t).CoreV1().Services(ns).Create(t.Context(), &core.Service{
			ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.ServiceSpec{ClusterIP: core.ClusterIPNone, Ports: []core.ServicePort{{Name: "https", Port: 443}}},
		}, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		port, portName, ready := int32(443), "https", true
		if _, err := API(t).DiscoveryV1().EndpointSlices(ns).Create(t.Context(), &discovery.EndpointSlice{
			ObjectMeta: meta.ObjectMeta{Name: name, Labels: label}, AddressType: discovery.AddressTypeIPv4,
			Endpoints: []discovery.Endpoint{{Addresses: []string{address}, Conditions: discovery.EndpointConditions{Ready: &ready}}},
			Ports:     []discovery.EndpointPort{{Name: &portName, Port: &port}},
		}, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		full = append(full, name+"."+ns+".svc.cluster.local")
	}
	return full
}

// trusting is the spec of a sandbox that finds a stand-in's certificate at certificatePath.
func trusting() map[string]any {
	return map[string]any{"egress": []netRule{}, "env": map[string]string{"SSL_CERT_FILE": certificatePath}}
}

const certificatePath = "/workspace/trust.pem"

func (b NetBox) trust(certificate []byte) {
	b.t.Helper()
	Call(b.t, "POST", b.url("/files"), map[string]any{"path": certificatePath, "content": certificate}, &struct{}{})
}

// Refused waits until the proxy refuses what is fetched, and says so.
func (b NetBox) Refused(url, says string) {
	b.t.Helper()
	Eventually(b.t, "refused: "+url, func(context.Context) string {
		code, out, stderr := b.Run("fetch", url)
		if code == 5 && strings.Contains(stderr, says) {
			return ""
		}
		return fmt.Sprintf("exit %d: %s%s; want 5 and %q", code, out, stderr, says)
	})
}

// N4: a rule by name opens that name through the proxy and no other, not even one at the
// same address; one that resolves to a private address says what is missing.
func TestDomainRule(t *testing.T) {
	t.Parallel()
	host := NewStandIn(t, "198.18.254.20")
	at := resolvedTo(t, Namespace(t), "198.18.254.20", "allowed", "other")
	certificate, _ := host.HTTPS(at...)
	box := NewNetBox(t, trusting())
	box.trust(certificate)
	if env := box.Environ(); !strings.Contains(env["https_proxy"], "@"+egressAddress(t)) {
		t.Errorf("the proxy is told by %q, and sandboxes have no names to look up; want %s", env["https_proxy"], egressAddress(t))
	}
	box.Open(netRule{"domain": at[0]})
	box.Refused("https://"+at[0]+"/hello", "a private address: that needs a rule with a cidr as well")
	box.Open(netRule{"domain": at[0]}, netRule{"cidr": "198.18.254.20", "ports": []int{443}, "seconds": 3600})
	box.Reaches("fetch", "https://"+at[0]+"/hello")
	box.Refused("https://"+at[1]+"/hello", "is not open")
	box.Refused("https://198.18.254.21/hello", "is not open")
	if code, _, stderr := box.Run("connect", host.At(443)); code != 3 && code != 4 {
		t.Errorf("what is open through the proxy is open without it: exit %d %s", code, stderr)
	}
	if n := host.Met(box.PodIP); n != 0 {
		t.Errorf("%d connections came from the sandbox itself, want them from the proxy", n)
	}
}

// A neighbour that has the sandbox's proxy URL, and a way to the proxy of its own, gets nothing.
func TestStolenProxyURL(t *testing.T) {
	t.Parallel()
	host := NewStandIn(t, "198.18.254.30")
	certificate, _ := host.HTTPS("stand-in.invalid")
	rule := netRule{"cidr": "198.18.254.30", "ports": []int{443}, "seconds": 3600}
	owner, thief := NewNetBox(t, trusting()), NewNetBox(t, trusting())
	owner.trust(certificate)
	thief.trust(certificate)
	owner.Open(rule)
	url := "https://198.18.254.30/hello"
	owner.Reaches("fetch", url)
	thief.Open(netRule{"cidr": "198.18.254.99", "seconds": 3600}) // so that it reaches the proxy
	thief.Refused(url, "is not open")
	if code, out, stderr := thief.Run("fetch", url, owner.Environ()["https_proxy"]); code != 5 || !strings.Contains(stderr, "another sandbox's proxy URL") {
		t.Errorf("with its neighbour's URL: exit %d, %s%s", code, out, stderr)
	}
}

// What is open for a time is open without any controller, closes by itself all the same, and
// connections that are open then are cut.
func timeIsUpWithoutControllers(t *testing.T, away guest) {
	host := NewStandIn(t, "198.18.254.40")
	certificate, streams := host.HTTPS("stand-in.invalid")
	box := NewNetBox(t, trusting())
	box.trust(certificate)
	proxy := box.Environ()["https_proxy"]
	away.quiet()
	const open = 40 * time.Second
	until := time.Now().Add(open)
	box.Open(netRule{"cidr": "198.18.254.40", "ports": []int{443}, "seconds": open.Seconds()})
	url := "https://198.18.254.40"
	box.Reaches("fetch", url+"/hello")
	away.begin()

	fetch := func(ctx context.Context, path string) (int, string) {
		code, out, err := PodExec(ctx, t, sandboxNamespace, "sandbox-"+box.ID, "/bare", "fetch", url+path, proxy)
		if err != nil {
			return -1, err.Error()
		}
		return code, out
	}
	if code, out := fetch(t.Context(), "/hello"); code != 0 || !time.Now().Before(until) {
		t.Fatalf("%v before its time is up and without controllers: exit %d: %s", time.Until(until), code, out)
	}
	type end struct {
		at   time.Time
		code int
	}
	cut := make(chan end, 1)
	go func() {
		code, _ := fetch(t.Context(), "/stream")
		cut <- end{time.Now(), code}
	}()
	Eventually(t, "streaming", func(context.Context) string {
		if streams() == 0 {
			return "no stream"
		}
		return ""
	})
	select {
	case got := <-cut:
		if got.code != 4 || got.at.Before(until.Add(-time.Second)) {
			t.Errorf("the stream ended %v before its time was up, exit %d; want to be cut then, exit 4", until.Sub(got.at), got.code)
		}
	case <-time.After(time.Until(until) + 30*time.Second):
		t.Error("the stream goes on after its time was up")
	}
	Eventually(t, "closed on the far side", func(context.Context) string {
		if n := streams(); n != 0 {
			return fmt.Sprintf("%d streams", n)
		}
		return ""
	})
	// The output of a program that ends at once may not come through the kubelet.
	Eventually(t, "refused with the reason", func(ctx context.Context) string {
		if code, out := fetch(ctx, "/hello"); code != 5 || !strings.Contains(out, "its time is up") {
			return fmt.Sprintf("exit %d: %s", code, out)
		}
		return ""
	})
	away.end()
}

// egressAddress is where sandboxes find the proxy.
func egressAddress(t testing.TB) string {
	t.Helper()
	list, err := API(t).CoreV1().Services(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "egress"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Services of the egress proxy: %v", len(list.Items), err)
	}
	return net.JoinHostPort(list.Items[0].Spec.ClusterIP, strconv.Itoa(int(list.Items[0].Spec.Ports[0].Port)))
}

// apiAddress is the API server's, seen from within the cluster.
func apiAddress(t testing.TB) string {
	t.Helper()
	service, err := API(t).CoreV1().Services("default").Get(t.Context(), "kubernetes", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port)))
}
