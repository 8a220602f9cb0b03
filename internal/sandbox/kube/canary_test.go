package kube

import (
	"context"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
)

var numberedURL = regexp.MustCompile(`^http://a:[0-9a-f]{32}@(127\.0\.0\.1|\[::1\]):3128$`)

// Of many replicas that look at once one tries; what it finds is everybody's until it is old.
func TestCanaryIsTriedOnce(t *testing.T) {
	t.Parallel()
	no := false
	for _, name := range []string{"nothing is known", "what is known is old"} {
		c := newPoolCluster(t)
		replicas := []*Runtime{c.start(c.opts), c.start(c.opts), c.start(c.opts)}
		if name != "nothing is known" {
			if _, err := replicas[0].publish(t.Context(), nil, finding{Enforced: &no, At: time.Now().Add(-2 * canaryAgain)}); err != nil {
				t.Fatal(err)
			}
		}
		var tries atomic.Int32
		try := func(context.Context) finding {
			tries.Add(1)
			return finding{Enforced: &no, At: time.Now(), Said: "open"}
		}
		for range 20 { // also while another replica writes what it found
			var all sync.WaitGroup
			for _, r := range replicas {
				all.Go(func() {
					if _, err := r.shared(t.Context(), try); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			all.Wait()
		}
		if n := tries.Load(); n != 1 {
			t.Errorf("%s: %d tries, want 1", name, n)
		}
		f, err := replicas[2].shared(t.Context(), try)
		if err != nil || f.Enforced == nil || *f.Enforced || f.Said != "open" {
			t.Errorf("%s: another replica knows %+v, %v", name, f, err)
		}
	}
}

// A replica that dies while it tries keeps the others from it for a time only.
func TestCanaryOfADeadReplica(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start()
	yes := true
	try := func(context.Context) finding { return finding{Enforced: &yes, At: time.Now()} }
	uid, err := r.publish(t.Context(), nil, finding{Trying: true, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := r.shared(t.Context(), try); err != nil || !f.Trying {
		t.Errorf("somebody tries, and this is known: %+v, %v", f, err)
	}
	if _, err := r.publish(t.Context(), uid, finding{Trying: true, At: time.Now().Add(-canaryTime - canaryAgain - time.Second)}); err != nil {
		t.Fatal(err)
	}
	if f, err := r.shared(t.Context(), try); err != nil || f.Enforced == nil || !*f.Enforced {
		t.Errorf("nobody tries after a replica died: %+v, %v", f, err)
	}
}

func TestFindingsAge(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, f := range []struct {
		finding
		life time.Duration
	}{
		{finding{Enforced: &yes}, canaryFresh}, {finding{Enforced: &no}, canaryAgain}, {finding{}, canaryAgain}, {finding{Trying: true}, canaryAgain + canaryTime},
	} {
		f.At = time.Now()
		if f.stale(f.At.Add(f.life)) || !f.stale(f.At.Add(f.life+1)) {
			t.Errorf("%+v is not known for %v", f.finding, f.life)
		}
	}
}

// What nobody knows is no number.
func TestNetworkGauge(t *testing.T) {
	t.Parallel()
	r := &Runtime{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Collectors()...)
	collected := func() (values []float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				values = append(values, m.GetGauge().GetValue())
			}
		}
		return values
	}
	if got := collected(); len(got) != 0 {
		t.Errorf("nothing is known, and it says %v", got)
	}
	for _, known := range []bool{true, false} {
		r.enforced.Store(&known)
		if got := collected(); len(got) != 1 || (got[0] == 1) != known {
			t.Errorf("enforced %v is %v", known, got)
		}
	}
}

// Sandboxes have no names to look up: the proxy is told to them by number. Variables of the API
// server are hidden from commands, the user's own are not.
func TestPodsAreTold(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := c.start(func(o *Options) { o.Network.ProxyAddress = "localhost:3128" })
	spec := plainSpec("a")
	spec.Egress, spec.Env = []sandbox.EgressRule{}, map[string]string{"KUBERNETES_PORT": "$(MINE)", "B": "c"}
	if _, err := r.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	pod, err := c.CoreV1().Pods(fakeNamespace).Get(t.Context(), podName("a"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url, _ := proxyURL(pod)
	if !numberedURL.MatchString(url) {
		t.Errorf("the proxy's URL is %s, want one with a number", url)
	}
	args := pod.Spec.Containers[0].Args
	if len(args) < 2 || args[0] != "--env" || args[1] != "KUBERNETES_PORT=$$(MINE)" {
		t.Errorf("arguments %q", args)
	}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == agentPrefix+"HIDE" && v.Value == hidden {
			return
		}
	}
	t.Error("the agent is not told what to hide")
}
