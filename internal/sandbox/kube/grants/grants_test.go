package grants

import (
	"context"
	"crypto/ed25519"
	"net/netip"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"orchard/internal/sandbox/egress"
)

func pod(name, uid, ip, sealed string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "boxes", UID: types.UID(uid), Labels: map[string]string{"app": "sandbox"}, Annotations: map[string]string{Annotation: sealed}},
		Status:     core.PodStatus{Phase: core.PodRunning, PodIP: ip, PodIPs: []core.PodIP{{IP: ip}}},
	}
}

// The store follows the Pods: grants come, change and go with them, forged ones and
// another Pod's count for nothing.
func TestWatch(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(key ed25519.PrivateKey, uid string, generation int64) string {
		s, err := egress.Seal(egress.Grant{UID: uid, Generation: generation, Rules: []egress.Rule{{Domain: "example.org"}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	client := fake.NewClientset(pod("sandbox-a", "u-a", "198.18.0.2", sealed(private, "u-a", 1)), pod("sandbox-b", "u-b", "198.18.0.3", sealed(stranger, "u-b", 1)),
		pod("sandbox-c", "u-c", "198.18.0.4", sealed(private, "u-a", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	store, synced, ended := &egress.Store{}, make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, client, "boxes", []ed25519.PublicKey{public}, store, func() { close(synced) })
	}()
	select {
	case <-synced:
	case err := <-ended:
		t.Fatal(err)
	}
	generation := func(ip string) int64 {
		g, _, ok := store.Lookup(netip.MustParseAddr(ip))
		if !ok {
			return 0
		}
		return g.Generation
	}
	want := func(what, ip string, n int64) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for generation(ip) != n {
			select {
			case <-deadline:
				t.Fatalf("%s: generation %d, want %d", what, generation(ip), n)
			case <-time.After(time.Millisecond):
			}
		}
	}
	pods := client.CoreV1().Pods("boxes")
	update := func(p *core.Pod) {
		t.Helper()
		if _, err := pods.Update(ctx, p, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want("at the start", "198.18.0.2", 1)
	if generation("198.18.0.3") != 0 || generation("198.18.0.4") != 0 {
		t.Error("a forged grant, or another Pod's, holds")
	}
	update(pod("sandbox-a", "u-a", "198.18.0.2", sealed(private, "u-a", 2)))
	want("changed", "198.18.0.2", 2)
	// Another sandbox is at the address before the end of the first is heard of.
	update(pod("sandbox-c", "u-c", "198.18.0.2", sealed(private, "u-c", 7)))
	want("address reused", "198.18.0.2", 7)
	ended1 := pod("sandbox-a", "u-a", "198.18.0.2", sealed(private, "u-a", 2))
	ended1.Status.Phase = core.PodFailed
	update(ended1)
	if err := pods.Delete(ctx, "sandbox-a", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	update(pod("sandbox-b", "u-b", "198.18.0.3", sealed(private, "u-b", 5)))
	want("after the end of the former", "198.18.0.3", 5)
	want("still", "198.18.0.2", 7)
	update(pod("sandbox-b", "u-b", "198.18.0.3", ""))
	want("taken back", "198.18.0.3", 0)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestEnv(t *testing.T) {
	env := Env("198.19.0.9:3128", "one", "s3cret")
	if token, ok := Token(env["https_proxy"]); !ok || token != "s3cret" || env["no_proxy"] == "" {
		t.Errorf("token %q, %v, of %v", token, ok, env)
	}
	if _, ok := Token("http://proxy"); ok {
		t.Error("a proxy without a password has a token")
	}
}
