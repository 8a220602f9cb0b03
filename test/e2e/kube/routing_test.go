package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/envctl/client"
)

// E1: the address of a sandbox that ended is another one's by now, and gets its commands. Here the
// cluster says that a sandbox which does not start has the address of one that runs, whose agent
// has the same masters.
func TestE1_AReusedAddressGetsNothing(t *testing.T) {
	t.Parallel()
	c, all := SDK(t, Controller(t).URL), Replicas(t)
	owner := Begin(t, Roomy(shImage))
	ip := GetPod(t, sandboxNamespace, "sandbox-"+owner.ID()).Status.PodIP
	other, _, err := c.Begin(t.Context(), client.Spec{Image: "198.18.255.1:1/nope:none", Memory: "32Mi", CPURequest: "10m"})
	if err != nil {
		t.Fatal(err)
	}
	pods, name := API(t).CoreV1().Pods(sandboxNamespace), "sandbox-"+other.ID()
	patch := fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, ip)
	held := 0
	for i := range 9 {
		// Anew each time: the kubelet writes what is true now and then.
		if _, err := pods.Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), meta.PatchOptions{}, "status"); err != nil {
			break // it ended meanwhile, as it should
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		got, err := Request(ctx, t, "POST", all[i%len(all)]+"/sandboxes/"+other.ID()+"/exec", map[string]any{"command": "echo wrong >>e1", "wait": true})
		stop()
		if err == nil && got.Status == http.StatusOK {
			t.Errorf("the command for one that does not run: %s", got.Body)
		}
		if p, err := pods.Get(t.Context(), name, meta.GetOptions{}); err == nil && p.Status.PodIP == ip {
			held++
		}
	}
	if held < 3 {
		t.Errorf("the address was the other's in %d tries only: this test shows nothing", held)
	}
	if got := Run(t, owner, "cat e1 2>&1; :"); !strings.Contains(string(got.Stdout), "No such file") {
		t.Errorf("commands for the one ran in the other: %s", got.Stdout)
	}
	FailedAs(t, other.ID(), "image_pull", false)
}

// E3: two replicas, one of which has not seen yet what the other did, make two Pods for one
// sandbox, or none: the one that is being deleted is taken for the new one.
func TestE3_OneSandboxHasOnePod(t *testing.T) {
	t.Parallel()
	all, spec := Replicas(t), Roomy(bareImage)
	spec.ID = fmt.Sprint("e3-", time.Now().UnixNano())
	seen := map[string]bool{}
	for i := range 3 {
		// Deleted at one, and made again at the next ones before their watch can tell.
		var makers sync.WaitGroup
		for j := range len(all) {
			makers.Go(func() {
				if _, err := SDK(t, all[(i+j)%len(all)]).Create(t.Context(), spec); err != nil {
					t.Errorf("round %d: %v", i, err)
				}
			})
		}
		makers.Wait()
		pods := podsOf(t.Context(), t, spec.ID)
		if len(pods) != 1 || seen[string(pods[0].UID)] || pods[0].DeletionTimestamp != nil {
			t.Fatalf("round %d: %d Pods, a new one: %v", i, len(pods), len(pods) == 1 && !seen[string(pods[0].UID)])
		}
		seen[string(pods[0].UID)] = true
		if err := SDK(t, all[i%len(all)]).Sandbox(spec.ID).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	Gone(t, spec.ID)
}

// E4: a connection that was idle for some seconds is closed by the service just as a client sends
// its next request over it.
func TestE4_IdleConnectionsStayOpen(t *testing.T) {
	t.Parallel()
	service, idle := Controller(t), []time.Duration{10 * time.Second, 35 * time.Second}
	if soak {
		idle = append(idle, 100*time.Second)
	}
	id := Common(t, shImage).ID()
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, IdleConnTimeout: 10 * time.Minute}}
	for i, pause := range append([]time.Duration{0}, idle...) {
		time.Sleep(pause)
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		body := strings.NewReader(fmt.Sprintf(`{"command":"echo %d","wait":true,"concurrent":true}`, i))
		req, err := http.NewRequestWithContext(ctx, "POST", service.URL+"/sandboxes/"+id+"/exec", body)
		if err != nil {
			t.Fatal(err)
		}
		req.GetBody = nil // so that nothing is sent again on its own
		req.Header.Set("X-API-Key", service.Key)
		resp, err := one.Do(req)
		if err != nil {
			t.Fatalf("idle for %v: %v", pause, err)
		}
		var j Job
		err = json.NewDecoder(resp.Body).Decode(&j)
		if _, copyErr := io.Copy(io.Discard, resp.Body); err != nil || copyErr != nil || j.Stdout != fmt.Sprintln(i) {
			t.Errorf("idle for %v: %v, %v, %v", pause, err, copyErr, j)
		}
		resp.Body.Close()
		if i > 0 && !reused {
			t.Errorf("idle for %v, and the connection was gone", pause)
		}
	}
}

// E5: a job that one replica began is not known to another, or runs for ever once that replica
// is dead.
func TestE5_AnyReplicaWaitsForAnyJob(t *testing.T) {
	AllReady(t)
	all, pods := Replicas(t), controllerPods(t.Context(), t)
	id := Begin(t, Roomy(shImage)).ID()
	cut := make(chan error, 1)
	body := map[string]any{"command": "echo ran >>e5; sleep 8; cat e5", "wait": true}
	var first, other = "http://" + pods[0].Status.PodIP + ":8000", ""
	for _, url := range all {
		if url != first {
			other = url
		}
	}
	go func() {
		_, err := Request(t.Context(), t, "POST", first+"/sandboxes/"+id+"/exec", body)
		cut <- err
	}()
	var jobs struct{ Jobs []Job }
	Eventually(t, "it runs", func(context.Context) string {
		a := Reply(t, "GET", other+"/sandboxes/"+id+"/jobs?state=running", nil)
		if into(t, a, &jobs); len(jobs.Jobs) != 1 {
			return string(a.Body)
		}
		return ""
	})
	waited := make(chan Answer, 1)
	go func() {
		a, err := Request(t.Context(), t, "GET", other+"/jobs/"+jobs.Jobs[0].ID+"/wait?timeout=60", nil)
		if err != nil {
			a.Body = []byte(err.Error())
		}
		waited <- a
	}()
	KillContainer(t, pods[0])
	if err := <-cut; err == nil {
		t.Error("the replica answered before it was killed")
	}
	var j Job
	into(t, <-waited, &j)
	if j.Status != "succeeded" || j.Stdout != "ran\n" {
		t.Errorf("the other replica: %v", j)
	}
	AllReady(t)
	if again := JobOf(t, first, j.ID); again.String() != j.String() {
		t.Errorf("the one that was killed, later: %v", again)
	}
}

// E6: what the controllers know is lost, and with it every sandbox that runs.
func e6NewControllersAdoptWhatRuns(t *testing.T, away guest) {
	const n = 20
	c := SDK(t, Controller(t).URL)
	boxes, uids, jobs := make([]*client.Sandbox, n), make([]string, n), make([]*client.Job, n)
	var making sync.WaitGroup
	for i := range n {
		making.Go(func() {
			spec := Roomy(shImage)
			spec.Labels = map[string]string{"e6": fmt.Sprint(i)}
			s, err := c.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Sandbox(s.ID()).Delete(context.Background()) })
			boxes[i], uids[i] = s, string(GetPod(t, sandboxNamespace, "sandbox-"+s.ID()).UID)
		})
	}
	making.Wait()
	if t.Failed() {
		return
	}
	away.quiet()
	for i, s := range boxes { // these run as the controllers go, and longer than they are away
		var err error
		if jobs[i], err = s.Start(t.Context(), client.Command{Shell: fmt.Sprintf("sleep 50; echo %d", i), Timeout: 2 * time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	away.begin()
	away.end()
	for _, url := range Replicas(t) {
		known, err := SDK(t, url).List(t.Context(), client.Filter{Labels: "e6", Status: client.Ready})
		if err != nil || len(known) != n {
			t.Errorf("%s knows %d of %d: %v", url, len(known), n, err)
		}
	}
	for i, s := range boxes {
		if got, err := jobs[i].Wait(t.Context()); err != nil || string(got.Stdout) != fmt.Sprintln(i) {
			t.Errorf("the job in sandbox %d: %v, %q", i, err, got.Stdout)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.Status != client.Ready || info.Labels["e6"] != fmt.Sprint(i) || info.CPURequest != "10m" {
			t.Errorf("sandbox %d: %v, %+v", i, err, info)
		}
		if p := GetPod(t, sandboxNamespace, "sandbox-"+s.ID()); string(p.UID) != uids[i] {
			t.Errorf("sandbox %d has another Pod", i)
		}
	}
}

// E7: an upgrade of the controllers fails commands. Two kinds of clients run some meanwhile: one
// that sends a request again when it should, one that never does.
func TestE7_AnUpgradeFailsNothing(t *testing.T) {
	AllReady(t)
	url, s := Controller(t).URL, Begin(t, Roomy(bashImage))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	var mu sync.Mutex
	done := map[string]int{}
	note := func(nonce string, err error) {
		mu.Lock()
		defer mu.Unlock()
		done[nonce]++
		if err != nil {
			t.Errorf("command %s: %v", nonce, err)
		}
	}
	for w := range 3 {
		for kind, exec := range map[string]func(command string) (string, error){
			"sdk": func(command string) (string, error) {
				got, err := s.Exec(t.Context(), client.Command{Shell: command, Concurrent: true, Timeout: time.Minute})
				return string(got.Stdout), err
			},
			"once": func(command string) (string, error) {
				a, err := Request(t.Context(), t, "POST", url+"/sandboxes/"+s.ID()+"/exec", map[string]any{"command": command, "wait": true, "concurrent": true})
				var j Job
				if err == nil && a.Status != http.StatusOK {
					err = fmt.Errorf("%d: %s", a.Status, a.Body)
				}
				return j.Stdout, errors.Join(err, json.Unmarshal(a.Body, &j), wantOut(j.Stdout, "ok\n"))
			},
		} {
			workers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					nonce := fmt.Sprintf("%s-%d-%d", kind, w, i)
					_, err := exec("echo " + nonce + " >>/tmp/e7; sleep 0.2; echo ok")
					note(nonce, err)
				}
			})
		}
	}
	Upgrade(t)
	stop()
	workers.Wait()
	ran := strings.Fields(string(Run(t, s, "cat /tmp/e7").Stdout))
	for _, nonce := range ran {
		done[nonce]--
	}
	for nonce, n := range done {
		if n != 0 {
			t.Errorf("command %s was answered %d times more often than it ran", nonce, n)
		}
	}
	t.Logf("%d commands", len(ran))
}

func wantOut(got, want string) error {
	if got != want {
		return fmt.Errorf("printed %q, want %q", got, want)
	}
	return nil
}
