//go:build linux

package local

import (
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

func TestLifetime(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := "brief"
	st, err := r.Start(t.Context(), sandbox.Spec{ID: id, Image: HostImage, Lifetime: 300 * time.Millisecond})
	if err != nil || !st.ExpiresAt.Equal(st.Created.Add(300*time.Millisecond)) {
		t.Fatalf("%+v, %v", st, err)
	}
	if st := ended(t, r, id); st.Reason != control.ReasonLifetime {
		t.Errorf("%+v", st)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	r := open(t)
	st := begin(t, r, sandbox.Spec{Lease: time.Hour})
	var lease wire.Lease
	if err := call(t.Context(), r, st.Spec.ID, "POST", "/v1/lease", wire.Lease{Seconds: 0.2}, &lease); err != nil {
		t.Fatal(err)
	}
	if st := ended(t, r, st.Spec.ID); st.Reason != control.ReasonLease {
		t.Errorf("%+v", st)
	}
	nothingLeft(t, r, st.UID)
}

func TestReadyTimeout(t *testing.T) {
	t.Parallel()
	r := open(t)
	if _, err := r.Start(t.Context(), sandbox.Spec{ID: "late", Image: HostImage, ReadyTimeout: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	if st := ended(t, r, "late"); st.Reason != control.ReasonNotReady || !strings.Contains(st.Message, "1ns") {
		t.Errorf("%+v", st)
	}
}
