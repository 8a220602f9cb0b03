package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault 39: without the policy that closes everything the check says which is missing.
func TestMissingDefaultDenyIsSaid(t *testing.T) {
	policies := API(t).NetworkingV1().NetworkPolicies(sandboxNamespace)
	np, err := policies.Get(t.Context(), "sandbox-default-deny", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	np.ResourceVersion, np.UID = "", ""
	if err := policies.Delete(t.Context(), np.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := policies.Create(context.Background(), np, meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	out, err := exec.CommandContext(ctx, "helm", "test", release, "-n", namespace, "--logs", "--timeout", "1m").CombinedOutput()
	if want := "has no NetworkPolicy that denies all sandboxes"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s; want %q", err, out, want)
	}
}

// Where nothing enforces policies no sandbox gets ready, and it says why; with the enforcer
// it does.
func TestPartEnforcerAwayNothingRuns(t *testing.T) {
	router := Component(t, "kube-router")
	router.Stop()
	box := StartNetBox(t, map[string]any{})
	Eventually(t, "told why it is not ready", func(ctx context.Context) string {
		status, said := netAsk(ctx, box.service, "GET", box.url(""), nil)
		if status == http.StatusOK && strings.Contains(said, "network is not closed yet") {
			return ""
		}
		return fmt.Sprint(status, said)
	})
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	status, said := netAsk(ctx, box.service, "POST", box.url("/exec"), map[string]any{"argv": []string{"/bare", "exit", "0"}, "wait": true})
	if status != http.StatusServiceUnavailable {
		t.Errorf("a command in an open network: %d %s, want 503", status, said)
	}
	router.Start()
	box.Reaches("exit", "0")
}

// The canary has seen that policies are enforced: every controller's metrics say so, by one
// try for all of them.
func TestCanarySeesEnforcement(t *testing.T) {
	t.Parallel()
	Eventually(t, "known to every controller", func(ctx context.Context) string {
		for _, url := range Replicas(t) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
			if err != nil {
				return err.Error()
			}
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				return err.Error()
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || !strings.Contains(string(text), "\norchard_network_enforced 1\n") {
				return url + " does not say orchard_network_enforced 1"
			}
		}
		return ""
	})
	cm, err := API(t).CoreV1().ConfigMaps(sandboxNamespace).Get(t.Context(), "network-canary", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var finding struct {
		Enforced bool
		Said     string
	}
	if err := json.Unmarshal([]byte(cm.Data["finding"]), &finding); err != nil || !finding.Enforced {
		t.Errorf("%v: %s", err, cm.Data["finding"])
	}
}
