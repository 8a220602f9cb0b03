package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/envctl/client"
)

// The reasons of ends, image by image, are in TestClusterEnds of the runtime; here it is what the
// caller of a replica learns.

// D1: what ends sandboxes stops, and they run, and cost, for ever.
func d1SandboxesEndWithoutAnyController(t *testing.T, away guest) {
	leased, timed := Roomy(shImage), Roomy(bareImage)
	leased.Lease, timed.Lifetime = 20*time.Second, 25*time.Second
	c := Begin(t, Roomy(bareImage))
	away.quiet()
	// They need not be ready before, and may end before that is seen.
	a, b := Ask(t, leased), Ask(t, timed)
	away.begin()
	for _, s := range []*client.Sandbox{a, b} {
		awaitPhase(t, sandboxNamespace, "sandbox-"+s.ID(), core.PodFailed, core.PodSucceeded)
	}
	if p := GetPod(t, sandboxNamespace, "sandbox-"+c.ID()); p.Status.Phase != core.PodRunning {
		t.Errorf("one whose time is not over is %s", p.Status.Phase)
	}
	away.end()
	FailedAs(t, a.ID(), "lease", false)
	FailedAs(t, b.ID(), "lifetime", false)
	if got, err := c.Exec(t.Context(), client.Command{Argv: []string{"/bare", "exit", "4"}}); err != nil || got.ExitCode != 4 {
		t.Errorf("the one that lives: %v, %+v", err, got)
	}
}

// D2: a heartbeat that comes as the lease runs out leaves a sandbox that nobody ends.
func TestD2_HeartbeatsRaceWithTheEnd(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			spec := Roomy(bareImage)
			spec.Lease = lease
			s := Begin(t, spec)
			url := Controller(t).URL
			beat := func() (status int, expires time.Time) {
				a := Reply(t, "POST", url+"/sandboxes/"+s.ID()+"/heartbeat", nil)
				var held struct {
					Expires client.Time `json:"lease_expires_at"`
				}
				if a.Status == http.StatusOK {
					into(t, a, &held)
				} else if a.Status != http.StatusNotFound && a.Status != http.StatusServiceUnavailable {
					t.Errorf("heartbeat: %d: %s", a.Status, a.Body)
				}
				return a.Status, held.Expires.Time
			}
			status, first := beat()
			if status != http.StatusOK {
				t.Fatalf("the first heartbeat: %d", status)
			}
			// Around the end, some before and some after.
			time.Sleep(time.Until(first) + time.Duration(i-3)*60*time.Millisecond)
			status, second := beat()
			if status == http.StatusOK && !second.After(first) {
				t.Errorf("a heartbeat that was taken moved the end from %v to %v", first, second)
			}
			t.Logf("heartbeat at %v: %d", time.Duration(i-3)*60*time.Millisecond, status)
			FailedAs(t, s.ID(), "lease", false)
		})
	}
}

// D9: a machine that is taken away looks like a command that failed, and counts as one.
func TestD9_PreemptionIsNoFailureOfTheTask(t *testing.T) {
	t.Parallel()
	url := Controller(t).URL
	for name, c := range map[string]struct {
		end       func(t *testing.T, id string)
		reason    string
		retryable bool
	}{
		"evicted": {func(t *testing.T, id string) {
			err := API(t).CoreV1().Pods(sandboxNamespace).EvictV1(t.Context(), &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: "sandbox-" + id}})
			if err != nil {
				t.Error(err)
			}
		}, "preempted", true},
		"killed": {func(t *testing.T, id string) { KillContainer(t, *GetPod(t, sandboxNamespace, "sandbox-"+id)) }, "agent_ended", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := Begin(t, Roomy(shImage)).ID()
			awaitPhase(t, sandboxNamespace, "sandbox-"+id, core.PodRunning)
			var j Job
			Call(t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"command": "sleep 600", "timeout_seconds": 600}, &j)
			UntilJob(t, url, j.ID, "running")
			c.end(t, id)
			Call(t, "GET", url+"/jobs/"+j.ID+"/wait?timeout=60", nil, &j)
			if j.Status != "failed" || j.Reason != "lost" || j.ExitCode != nil || j.SandboxReason != c.reason || j.Retryable == nil || *j.Retryable != c.retryable {
				t.Errorf("%v, retryable %v; want %s, %v", j, j.Retryable, c.reason, c.retryable)
			}
			FailedAs(t, id, c.reason, c.retryable)
		})
	}
}

// D10: a sandbox that runs out of memory is a socket that closed.
func TestD10_OutOfMemoryIsSaid(t *testing.T) {
	t.Parallel()
	spec := Roomy(bashImage)
	spec.Memory = "100Mi"
	id := Begin(t, spec).ID()
	j := Exec(t, Controller(t).URL, id, "a=x; while :; do a=$a$a; done")
	if j.Status != "failed" || j.ExitCode != nil || j.SandboxReason != "OOMKilled" || j.Error == nil || !strings.Contains(*j.Error, "100Mi") {
		t.Errorf("the command that took it: %v", j)
	}
	if info := FailedAs(t, id, "OOMKilled", false); !strings.Contains(info.Message, "100Mi") {
		t.Errorf("after its Pod: %s", info.Message)
	}
	for _, url := range Replicas(t) {
		a := Reply(t, "POST", url+"/sandboxes/"+id+"/exec", map[string]any{"command": "echo"})
		if a.Status != http.StatusNotFound || !strings.Contains(a.Detail(), "OOMKilled") || !strings.Contains(string(a.Body), `"gone":true`) {
			t.Errorf("a later command: %d: %s", a.Status, a.Body)
		}
	}
}

// D11: a container is started again in its place, empty, and nobody is told.
func TestD11_AnotherContainerIsNotTheSameSandbox(t *testing.T) {
	t.Parallel()
	id := Begin(t, Roomy(shImage)).ID()
	awaitPhase(t, sandboxNamespace, "sandbox-"+id, core.PodRunning)
	Exec(t, Controller(t).URL, id, "echo kept >d11")
	// The kubelet restarts no container of a sandbox: so this is what it would write if it did.
	patch := `{"status":{"containerStatuses":[{"name":"sandbox","restartCount":1}]}}`
	_, err := API(t).CoreV1().Pods(sandboxNamespace).Patch(t.Context(), "sandbox-"+id, "application/strategic-merge-patch+json", []byte(patch), meta.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	FailedAs(t, id, "replaced", true)
}

// D12: a sandbox whose image cannot be had is pending until the caller's patience ends.
func TestD12_AnImageThatCannotBeHadFailsPromptly(t *testing.T) {
	t.Parallel()
	c := SDK(t, Controller(t).URL)
	for name, spec := range map[string]client.Spec{
		"no registry": {Image: "198.18.255.1:1/nope:none"}, "no name": {Image: "Nope:::none"},
		"no pull secret": {Image: "198.18.255.1:1/private:1", PullSecrets: []string{"not-there"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, err := c.Begin(t.Context(), spec)
			if name == "no pull secret" && err != nil {
				// Naming one takes a key that may: then it is refused before anything is made.
				if a := Reply(t, "POST", Controller(t).URL+"/sandboxes", map[string]any{"image": spec.Image, "image_pull_secrets": spec.PullSecrets}); a.Status != http.StatusUnprocessableEntity {
					t.Errorf("%d: %s", a.Status, a.Body)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if info := FailedAs(t, s.ID(), "image_pull", false); !strings.Contains(info.Message, spec.Image) {
				t.Errorf("after %v: %s", time.Since(began), info.Message)
			}
		})
	}
}

// D13: a Pod is replaced under a command, which is run again in the new one.
func TestD13_NothingIsRunAgainInAReplacement(t *testing.T) {
	t.Parallel()
	all, spec := Replicas(t), Roomy(shImage)
	spec.ID = fmt.Sprint("d13-", time.Now().UnixNano())
	s := Begin(t, spec)
	body := map[string]any{"command": "echo ran >>d13; sleep 600", "wait": true, "timeout_seconds": 600}
	answered := make(chan Answer, 1)
	go func() {
		// One that runs in the second is not waited for to its end.
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		a, err := Request(ctx, t, "POST", all[0]+"/sandboxes/"+s.ID()+"/exec", body)
		if err != nil {
			a.Body = []byte(err.Error())
		}
		answered <- a
	}()
	Eventually(t, "it runs", func(context.Context) string {
		if a := Reply(t, "GET", all[1]+"/sandboxes/"+s.ID()+"/jobs?state=running", nil); !strings.Contains(string(a.Body), "d13") {
			return string(a.Body)
		}
		return ""
	})
	now := int64(0)
	if err := API(t).CoreV1().Pods(sandboxNamespace).Delete(t.Context(), "sandbox-"+s.ID(), meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if _, err := SDK(t, all[1]).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	got := <-answered
	if ran := Run(t, s, "cat d13 2>&1; :"); !strings.Contains(string(ran.Stdout), "No such file") {
		t.Errorf("the command of the first ran in the second: %s", ran.Stdout)
	}
	var j Job
	into(t, got, &j)
	if j.Status != "failed" || j.Reason != "lost" || j.ExitCode != nil || j.Retryable == nil || !*j.Retryable {
		t.Errorf("the command in the first: %v", j)
	}
	if after := JobOf(t, all[2], j.ID); after.Reason != "lost" || after.SandboxReason != "replaced" && after.SandboxReason != j.SandboxReason {
		t.Errorf("asked for later: %v", after)
	}
}

// D14: a sandbox that is never used is never ended, and one that is only used for commands is
// ended as if it were not.
func TestD14_UntouchedOnesEndAndUsedOnesDoNot(t *testing.T) {
	t.Parallel()
	all := Replicas(t)
	make := func(fields map[string]any) string {
		fields["image"], fields["cpu_request"], fields["memory"] = shImage, "10m", "128Mi"
		var made struct {
			ID string `json:"sandbox_id"`
		}
		Call(t, "POST", all[0]+"/sandboxes", fields, &made)
		return made.ID
	}
	const late = 30 * time.Second // not ready by then is an end as well
	untouched := make(map[string]any{"lifetime_seconds": 15})
	used := make(map[string]any{"timeout": late.Seconds(), "lifetime_seconds": 600})
	if a := Reply(t, "GET", all[0]+"/sandboxes/"+used+"/wait?timeout=30", nil); a.Status != http.StatusOK {
		t.Fatalf("not ready: %d: %s", a.Status, a.Body)
	}
	for began := time.Now(); time.Since(began) < late+5*time.Second; time.Sleep(time.Second) {
		if a := Reply(t, "POST", all[0]+"/sandboxes/"+used+"/exec", map[string]any{"command": "echo on", "wait": true}); a.Status != http.StatusOK {
			t.Fatalf("after %v: %d: %s", time.Since(began), a.Status, a.Body)
		}
	}
	Gone(t, untouched)
	if a := Reply(t, "DELETE", all[1]+"/sandboxes/"+used, nil); a.Status != http.StatusOK {
		t.Errorf("delete: %d: %s", a.Status, a.Body)
	}
}
