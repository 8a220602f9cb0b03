package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	networking "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var sandboxNamespace = os.Getenv("ORCHARD_E2E_SANDBOX_NAMESPACE")

// netRule opens something to a sandbox, as clients write it.
type netRule map[string]any

// NetBox is a sandbox of the image with /bare, made by the API as users of its network do.
type NetBox struct {
	t       testing.TB
	service Service
	ID      string
	PodIP   string
}

// NewNetBox makes one and waits until it runs commands; it ends with the test.
func NewNetBox(t testing.TB, spec map[string]any) NetBox {
	t.Helper()
	b := StartNetBox(t, spec)
	var state struct{ Status string }
	Call(t, "GET", b.url("/wait?timeout=90"), nil, &state)
	if state.Status != "ready" {
		t.Fatalf("sandbox %s is %s", b.ID, state.Status)
	}
	b.PodIP = GetPod(t, sandboxNamespace, "sandbox-"+b.ID).Status.PodIP
	return b
}

// StartNetBox makes one and waits for nothing.
func StartNetBox(t testing.TB, spec map[string]any) NetBox {
	t.Helper()
	if spec["image"] == nil {
		spec["image"] = bareImage
	}
	var made struct {
		ID string `json:"sandbox_id"`
	}
	Call(t, "POST", Controller(t).URL+"/sandboxes", spec, &made)
	b := NetBox{t: t, service: Controller(t), ID: made.ID}
	t.Cleanup(b.End)
	return b
}

func (b NetBox) url(rest string) string { return b.service.URL + "/sandboxes/" + b.ID + rest }

// End ends the sandbox and waits until its Pod is gone.
func (b NetBox) End() {
	b.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	// Controllers may just have come back.
	for status := 0; status != http.StatusOK && status != http.StatusNotFound; {
		status, _ = netAsk(ctx, b.service, "DELETE", b.url(""), nil)
		if ctx.Err() != nil {
			b.t.Fatalf("sandbox %s cannot be ended: %d", b.ID, status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for ctx.Err() == nil {
		if _, err := API(b.t).CoreV1().Pods(sandboxNamespace).Get(ctx, "sandbox-"+b.ID, meta.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	b.t.Errorf("the Pod of sandbox %s is still there", b.ID)
}

// netAsk is one request with the service's key; status 0 is that nothing answered.
func netAsk(ctx context.Context, service Service, method, url string, body any) (status int, answer string) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, err.Error()
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", service.Key)
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer got.Body.Close()
	raw, err = io.ReadAll(got.Body)
	if err != nil {
		return 0, err.Error()
	}
	return got.StatusCode, string(raw)
}

// Run runs /bare in the sandbox.
func (b NetBox) Run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var job struct {
		Status   string `json:"status"`
		ExitCode *int   `json:"exit_code"`
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
	}
	Call(b.t, "POST", b.url("/exec"), map[string]any{"argv": append([]string{"/bare"}, args...), "wait": true, "timeout_seconds": 60}, &job)
	if job.ExitCode == nil {
		b.t.Fatalf("/bare %v in sandbox %s: %+v", args, b.ID, job)
	}
	return *job.ExitCode, job.Stdout, job.Stderr
}

// Open makes rules all that the sandbox may reach.
func (b NetBox) Open(rules ...netRule) (generation int) {
	b.t.Helper()
	if rules == nil {
		rules = []netRule{}
	}
	var now struct{ Generation int }
	Call(b.t, "PUT", b.url("/network"), map[string]any{"egress": rules}, &now)
	return now.Generation
}

// Environ is the environment of commands.
func (b NetBox) Environ() map[string]string {
	b.t.Helper()
	code, out, stderr := b.Run("env")
	if code != 0 {
		b.t.Fatalf("exit %d: %s", code, stderr)
	}
	env := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	return env
}

// Reaches waits until the sandbox reaches what a verb of /bare and its arguments say.
func (b NetBox) Reaches(args ...string) {
	b.t.Helper()
	Eventually(b.t, fmt.Sprintf("reached from %s: %v", b.ID, args), func(context.Context) string {
		code, out, stderr := b.Run(args...)
		if code == 0 {
			return ""
		}
		return fmt.Sprintf("exit %d: %s%s", code, out, stderr)
	})
}

// Misses waits until it does not, for the network's sake: refused, or never answered.
func (b NetBox) Misses(args ...string) {
	b.t.Helper()
	Eventually(b.t, fmt.Sprintf("closed to %s: %v", b.ID, args), func(context.Context) string {
		code, out, stderr := b.Run(args...)
		if code == 3 || code == 4 {
			return ""
		}
		return fmt.Sprintf("exit %d: %s%s", code, out, stderr)
	})
}

// Policy is what the cluster opens to the sandbox, nil for nothing.
func (b NetBox) Policy() *networking.NetworkPolicy {
	b.t.Helper()
	np, err := API(b.t).NetworkingV1().NetworkPolicies(sandboxNamespace).Get(b.t.Context(), "open-sandbox-"+b.ID, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return np
}
