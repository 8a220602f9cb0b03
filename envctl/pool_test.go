package envctl_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// keeper is a runtime that keeps book of one pool.
type keeper struct {
	*plain.Runtime
	pool *control.PoolState
}

func (k *keeper) SetPool(_ context.Context, p control.Pool) (control.PoolState, error) {
	k.pool = &control.PoolState{Pool: p, Ready: 1, Starting: 1, Failures: 2, Message: "image_pull: no such", RetryAt: time.Now().Add(time.Hour)}
	return *k.pool, nil
}

func (k *keeper) Pool(_ context.Context, name string) (control.PoolState, error) {
	if k.pool == nil || k.pool.Name != name {
		return control.PoolState{}, control.ErrNotFound
	}
	return *k.pool, nil
}

func (k *keeper) Pools(context.Context) ([]control.PoolState, error) {
	if k.pool == nil {
		return nil, nil
	}
	return []control.PoolState{*k.pool}, nil
}

func (k *keeper) DeletePool(context.Context, string) error {
	k.pool = nil
	return nil
}

// What pool sets is what the service was asked for, and what it shows.
func TestPool(t *testing.T) {
	t.Parallel()
	set := control.Defaults()
	key := control.NewKey()
	set.Keys = control.ParseKeys(key)
	k := &keeper{Runtime: plain.New(t)}
	s, err := control.New(k, set)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	to := sandboxtest.Service{URL: server.URL, Key: key}
	got := call(t, to, "", "pool", "set", "py", "python:3.12", "--size", "2", "--cpu", "500m", "--memory-request", "1Gi")
	if got.code != 0 || !strings.Contains(got.out, "1/2") || !strings.Contains(got.out, "next try in 59m") || !strings.Contains(got.out, "no such") {
		t.Errorf("set: %+v", got)
	}
	if p := k.pool; p == nil || p.Name != "py" || p.Spec.Image != "python:3.12" || p.Size != 2 || p.Spec.CPU != "500m" || p.Spec.Reserve.Memory != "1Gi" {
		t.Errorf("the service was asked for %+v", p)
	}
	if got = call(t, to, "", "pool", "ls", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"name":"py"`) || !strings.Contains(got.out, `"failures":2`) {
		t.Errorf("ls: %+v", got)
	}
	for _, wrong := range [][]string{{"pool", "set", "py"}, {"pool", "set", "py", "a", "--size", "-1"}, {"pool", "set", "py", "a", "--env", "A=b"}, {"pool", "rm"}} {
		if got = call(t, to, "", wrong...); got.code != 125 {
			t.Errorf("%q: %+v", wrong, got)
		}
	}
	if got = call(t, to, "", "pool", "rm", "py", "py"); got.code != 0 || k.pool != nil {
		t.Errorf("rm: %+v", got)
	}
	if got = call(t, to, "", "pool", "ls"); got.code != 0 || strings.Contains(got.out, "py") {
		t.Errorf("ls of none: %+v", got)
	}
}
