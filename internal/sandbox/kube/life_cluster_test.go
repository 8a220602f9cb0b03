package kube

import (
	"errors"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox/control"
)

// Any image works: with bash, with only sh, with neither.
func TestClusterImages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.open(t)
	for name, image := range map[string]string{"bash": imageBash, "sh": imageSh, "bare": imageBare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := small(image)
			spec.Env = map[string]string{"WORD": "a $b $(WORD) $$ c$", "EMPTY": ""}
			began := time.Now()
			st := begin(t, r, spec)
			t.Logf("ready after %v (asked %v ago)", st.Ready.Sub(st.Created), time.Since(began))
			if st.Spec.Env["WORD"] != spec.Env["WORD"] || st.Spec.Image != image || st.Host == "" || st.Scheduled.IsZero() || st.ExpiresAt.IsZero() {
				t.Errorf("state %+v", st)
			}
			if out, code := exec(t, r, spec.ID, agentProgram, "--version"); code != 0 || !strings.HasPrefix(out, "orchard-agent") {
				t.Errorf("version: %d %q", code, out)
			}
			if _, code := exec(t, r, spec.ID, agentProgram, "copy", agentProgram); code == 0 {
				t.Error("a command could write the agent")
			}
			if name != "bare" {
				if out, code := exec(t, r, spec.ID, "sh", "-c", `printf '%s|%s' "$WORD" "$EMPTY"; env | grep ORCHARD_AGENT`); out != spec.Env["WORD"]+"|" || code != 1 {
					t.Errorf("environment: %d %q", code, out)
				}
			}
			if err := r.Stop(t.Context(), spec.ID, control.ReasonDeleted); err != nil {
				t.Fatal(err)
			}
			if st, err := r.Get(t.Context(), spec.ID); err != nil || st.Phase != control.Ended || st.Reason != control.ReasonDeleted {
				t.Errorf("after stop: %+v, %v", st, err)
			}
			if _, _, err := r.Agent(t.Context(), spec.ID); !errors.Is(err, control.ErrNotReady) {
				t.Errorf("agent of an ended sandbox: %v", err)
			}
		})
	}
}

// What runs in a sandbox has no privileges, and cannot look into its agent.
func TestClusterClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.opts.Network.Probes = []string{"198.19.0.1:443"} // or the policy may come later than the sandbox
	r := s.open(t)
	spec := small(imageBash)
	begin(t, r, spec)
	for command, want := range map[string]string{
		"grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\t\n' ' '":         "CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ",
		"cat /proc/1/environ 2>&1 | tr -d '\n'; readlink /proc/1/exe /proc/1/fd/1; :":                    "cat: /proc/1/environ: Permission denied",
		"ls /var/run/secrets/kubernetes.io 2>/dev/null; :":                                               "",
		"kill -9 1; kill -TERM 1; sleep 0.2; echo alive":                                                 "alive\n",
		"rm -f /opt/orchard/orchard-agent 2>/dev/null; (: >/opt/orchard/x) 2>/dev/null; ls /opt/orchard": "orchard-agent\n",
		"(exec 3<>/dev/tcp/198.19.0.1/443) 2>/dev/null && echo open; :":                                  "",
	} {
		if got, _ := exec(t, r, spec.ID, "timeout", "5", "bash", "-c", command); got != want {
			t.Errorf("%s\n got %q\nwant %q", command, got, want)
		}
	}
}
