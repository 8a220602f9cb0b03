package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/envctl/client"
	"orchard/test/e2e/figures"
)

// chaos is sandboxes under load while the controllers die.
type chaos struct {
	service Service
	sdk     *client.Client
	boxes   []*client.Sandbox

	mu      sync.Mutex
	answers []answer
	churned int
}

// answer is one command, which writes its nonce into its sandbox's file, as a client saw it.
type answer struct {
	box   *client.Sandbox
	nonce string
	job   string // "" when the client never learned it
	ok    bool   // it ran, and ended with 0
	err   error  // why that is not known; nil with !ok: it failed
}

// The ways to run a command, each with what it does when a connection breaks.
const (
	withSDK      = iota // Exec: comes again with its key
	withJob             // Start and Wait
	withOriginal        // the original's clients: the same body again, without a key
	ways
)

// How many sandboxes there are, and for how long controllers are killed.
const (
	chaosBoxes = 200
	chaosTime  = 3 * time.Minute
)

// Controllers are killed at random while 200 sandboxes are under load. Nothing runs twice, what
// was answered happened, what could not be answered is found out later, and nothing is left over.
func TestChaos(t *testing.T) {
	if !soak {
		t.Skip("make soak runs this")
	}
	AllReady(t)
	n, lasts := chaosBoxes, chaosTime
	if text := os.Getenv("ORCHARD_SOAK_CHAOS"); text != "" { // for trying this test: fewer, for a shorter time
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		lasts = 30 * time.Second
	}
	prefix := fmt.Sprintf("chaos-%d-", time.Now().Unix())
	c := &chaos{service: Controller(t), sdk: SDK(t, Controller(t).URL)}
	t.Cleanup(func() { c.sweep(cleaning{t}, prefix) })
	began := time.Now()
	c.make(t, prefix, n)
	made := time.Since(began)

	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var work sync.WaitGroup
	for i, box := range c.boxes {
		work.Go(func() { c.load(ctx, box, i) })
	}
	for i := range 3 {
		work.Go(func() { c.churn(ctx, t, fmt.Sprintf("%slife-%d", prefix, i)) })
	}
	kills := c.kill(ctx, t)
	work.Wait()
	AllReady(t)
	c.judge(t)
	figures.Tell(t, "chaos: %d sandboxes (made in %v), %d commands in %v, %d sandboxes made and ended meanwhile, controllers killed %d times",
		len(c.boxes), made.Round(time.Second), len(c.answers), lasts, c.churned, kills)
	c.sweep(t, prefix)
	Eventually(t, "nothing is left over", func(ctx context.Context) string { return strings.Join(leftovers(ctx, t, prefix), ", ") })
}

// make makes n sandboxes, a few at a time.
func (c *chaos) make(t *testing.T, prefix string, n int) {
	t.Helper()
	var making sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range n {
		making.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			spec := client.Spec{
				ID: fmt.Sprint(prefix, i), Image: shImage, CPU: "1", CPURequest: "1m", Memory: "64Mi", MemoryRequest: "16Mi",
				ReadyTimeout: 10 * time.Minute, Lifetime: time.Hour,
			}
			box, err := c.sdk.Create(t.Context(), spec)
			if err != nil {
				t.Errorf("sandbox %s: %v", spec.ID, err)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.boxes = append(c.boxes, box)
		})
	}
	making.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// load runs one command after the other in box until ctx is done; what has begun is finished.
func (c *chaos) load(ctx context.Context, box *client.Sandbox, seed int) {
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(4 * time.Second)):
		}
		a := answer{box: box, nonce: fmt.Sprintf("%s/%d", box.ID(), i)}
		finish, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		switch (seed + i) % ways {
		case withSDK:
			r, err := box.Exec(finish, c.command(a))
			a.job, a.ok, a.err = r.JobID, err == nil && r.ExitCode == 0, err
		case withJob:
			job, err := box.Start(finish, c.command(a))
			if a.err = err; err == nil {
				r, err := job.Wait(finish)
				a.job, a.ok, a.err = job.ID(), err == nil && r.ExitCode == 0, err
			}
		case withOriginal:
			a.job, a.ok, a.err = c.original(finish, a)
		}
		stop()
		c.mu.Lock()
		c.answers = append(c.answers, a)
		c.mu.Unlock()
	}
}

func (c *chaos) command(a answer) client.Command {
	return client.Command{Shell: "echo " + a.nonce + " >>nonces", Timeout: time.Minute, IdempotencyKey: a.nonce}
}

// original is what clients of the original service do: the request goes out again when its
// connection broke or the service is away.
func (c *chaos) original(ctx context.Context, a answer) (job string, ok bool, err error) {
	body := fmt.Sprintf(`{"command": %q, "wait": true, "timeout_seconds": 60}`, c.command(a).Shell)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.service.URL+"/sandboxes/"+a.box.ID()+"/exec", strings.NewReader(body))
		if err != nil {
			return "", false, err
		}
		req.Header.Set("X-API-Key", c.service.Key)
		resp, err := once.Do(req)
		if err == nil {
			var j Job
			err = json.NewDecoder(resp.Body).Decode(&j)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == http.StatusOK:
				return j.ID, j.Status == "succeeded", nil
			case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable:
				return "", false, fmt.Errorf("status %d, %w", resp.StatusCode, err)
			}
		}
		select {
		case <-ctx.Done():
			return "", false, errors.Join(ctx.Err(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// churn makes sandboxes of one id, and ends them, one after the other.
func (c *chaos) churn(ctx context.Context, t *testing.T, id string) {
	for ctx.Err() == nil {
		finish, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		box, err := c.sdk.Create(finish, client.Spec{ID: id, Image: bareImage, CPURequest: "1m", CPU: "1", Memory: "64Mi", MemoryRequest: "16Mi", ReadyTimeout: 4 * time.Minute, Lifetime: time.Hour})
		if err == nil {
			err = box.Delete(finish)
		}
		stop()
		if err != nil {
			t.Errorf("make and end sandbox %s: %v", id, err)
			return
		}
		c.mu.Lock()
		c.churned++
		c.mu.Unlock()
	}
}

// kill ends one controller after the other without a warning until ctx is done: its process, or the Pod.
func (c *chaos) kill(ctx context.Context, t *testing.T) (kills int) {
	now := int64(0)
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(3*time.Second + rand.N(6*time.Second)):
		}
		pods := controllerPods(t.Context(), t)
		if len(pods) == 0 {
			continue
		}
		pod := pods[rand.IntN(len(pods))]
		// A process that is killed time and again is started later and later, so mostly Pods.
		if s := pod.Status.ContainerStatuses; rand.IntN(3) == 0 && len(s) == 1 && s[0].State.Running != nil {
			KillContainer(t, pod)
		} else if err := API(t).CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Logf("delete %s: %v", pod.Name, err)
			continue
		}
		kills++
	}
}

// judge holds the answers against the files.
func (c *chaos) judge(t *testing.T) {
	t.Helper()
	wrote := map[string]int{}
	for _, box := range c.boxes {
		got := Run(t, box, "cat nonces 2>/dev/null; :")
		for nonce := range strings.Lines(string(got.Stdout)) {
			wrote[strings.TrimSpace(nonce)]++
		}
	}
	unknown, jobs := 0, map[string]string{}
	for _, a := range c.answers {
		n := wrote[a.nonce]
		delete(wrote, a.nonce)
		if n > 1 {
			t.Errorf("%s is there %d times: answer %v, %v", a.nonce, n, a.ok, a.err)
		}
		if other := jobs[a.job]; a.job != "" && other != "" {
			t.Errorf("%s and %s are one job, %s", a.nonce, other, a.job)
		}
		jobs[a.job] = a.nonce
		switch {
		case a.ok && n == 0:
			t.Errorf("%s was answered as done, and is not there", a.nonce)
		case a.err == nil && !a.ok:
			t.Errorf("%s was answered as failed, and nothing was wrong with it; it is there %d times", a.nonce, n)
		case a.err != nil:
			unknown++
			c.resolve(t, a, n)
		}
	}
	for nonce := range wrote {
		if strings.HasPrefix(nonce, "chaos-") {
			t.Errorf("%s is there, and nobody asked for it", nonce)
		} else {
			t.Errorf("files hold %q", nonce)
		}
	}
	if share := float64(unknown) / float64(len(c.answers)); share > 0.01 {
		t.Errorf("%d of %d answers are unknown, %.2f%%; want at most 1%%", unknown, len(c.answers), 100*share)
	}
	figures.Tell(t, "chaos: no nonce twice, %d answers, %d unknown at first", len(c.answers), unknown)
}

// resolve finds out what a command did whose client never knew: by its job's id, which its
// sandbox tells when the client has not even that.
func (c *chaos) resolve(t *testing.T, a answer, wrote int) {
	t.Helper()
	if a.job == "" {
		all, err := a.box.Jobs(t.Context())
		if err != nil {
			t.Errorf("jobs of %s: %v", a.box.ID(), err)
			return
		}
		i := slices.IndexFunc(all, func(j client.JobInfo) bool { return j.Command == c.command(a).Shell })
		if i < 0 { // it never arrived
			if wrote != 0 {
				t.Errorf("%s is there, and no job of its sandbox", a.nonce)
			}
			return
		}
		a.job = all[i].ID
	}
	r, err := c.sdk.Job(a.job).Wait(t.Context())
	if err != nil || r.ExitCode != 0 || wrote != 1 {
		t.Errorf("%s was unknown (%v), and its job %s says %v, exit %d; it is there %d times", a.nonce, a.err, a.job, err, r.ExitCode, wrote)
	}
}

// sweep ends what the test made.
func (c *chaos) sweep(t testing.TB, prefix string) {
	t.Helper()
	var ending sync.WaitGroup
	slots := make(chan struct{}, 20)
	for _, p := range podsOf(t.Context(), t, prefix) {
		ending.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := c.sdk.Sandbox(p.Labels["sandbox-id"]).Delete(t.Context()); err != nil {
				t.Errorf("end sandbox %s: %v", p.Labels["sandbox-id"], err)
			}
		})
	}
	ending.Wait()
}
