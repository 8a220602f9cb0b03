package envctl_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// opener is a runtime that says it opens what it is asked to.
type opener struct {
	*plain.Runtime
	mu    sync.Mutex
	rules []egress.Rule
}

func (o *opener) SetEgress(ctx context.Context, id string, rules []sandbox.EgressRule) (control.State, error) {
	o.mu.Lock()
	o.rules = egress.Rules(rules, time.Now())
	o.mu.Unlock()
	return o.Get(ctx, id)
}

func (o *opener) Get(ctx context.Context, id string) (control.State, error) {
	st, err := o.Runtime.Get(ctx, id)
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Network.Rules = o.rules
	return st, err
}

// What net opens is what the service was asked for, and what it shows.
func TestNet(t *testing.T) {
	t.Parallel()
	rt := &opener{Runtime: plain.New(t)}
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys("key"), t.TempDir()
	service, err := control.New(rt, set)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	defer server.Close()
	defer service.Drain()
	s := sandboxtest.Service{URL: server.URL, Key: "key"}
	if got := call(t, s, "", "create", "x", "--id", "box", "--allow", "pypi.org@1h"); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	got := call(t, s, "", "net", "set", "box", "*.pypi.org:443", "203.0.113.0/24@10m")
	if got.code != 0 || !strings.Contains(got.out, "*.pypi.org      443    never") || !strings.Contains(got.out, "203.0.113.0/24  -      9m") {
		t.Errorf("set: %+v", got)
	}
	rt.mu.Lock()
	if len(rt.rules) != 2 || rt.rules[0].Domain != "*.pypi.org" || rt.rules[1].UntilUS == 0 {
		t.Errorf("opened %+v", rt.rules)
	}
	rt.mu.Unlock()
	if got := call(t, s, "", "net", "show", "box", "-o", "json"); !strings.Contains(got.out, `{"cidr":"203.0.113.0/24","expires_at":`) {
		t.Errorf("show: %+v", got)
	}
	if got := call(t, s, "", "net", "close", "box"); got.code != 0 || got.out != "closed\n" {
		t.Errorf("close: %+v", got)
	}
}
