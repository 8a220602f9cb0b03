package argo_test

import (
	"strings"
	"testing"
	"time"
)

// early is how soon a run that cannot go well has to be over: the check waits a minute for what
// is away.
const early = 3 * time.Minute

// away is an address at which nobody listens.
const away = "http://127.0.0.1:1"

// A run that cannot go well ends soon, by itself, and `argo get`, or the submit itself, says why
// and what to do.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rare   bool // much like another: make soak runs it
		name   string
		with   map[string]string                        // parameters
		change func(what string, o map[string]any) bool // of the namespace; nil is the release's
		says   []string                                 // in `argo get`
		never  bool                                     // the submit itself is refused
	}{
		{name: "NotANumber", with: map[string]string{"rollouts": "abc"}, says: []string{"rollouts", "abc"}},
		{rare: true, name: "OutOfRange", with: map[string]string{"shards": "257"}, says: []string{"--shards: 257 must be 1 to 256"}},
		{rare: true, name: "NotInTheList", with: map[string]string{"keep": "foo"}, says: []string{`--keep: "foo" is neither resolved nor graded`}},
		{rare: true, name: "NoTasks", with: map[string]string{"tasks": ""}, says: []string{"--in"}},
		{name: "NoSuchTasks", with: map[string]string{"tasks": root + "/nothing.jsonl"}, says: []string{"nothing.jsonl: there is no such object"}},
		{name: "ModelAway", with: map[string]string{"llm-url": away + "/v1"}, says: []string{away, "--llm-url", "still so after 1m0s"}},
		{rare: true, name: "NoSuchModel", with: map[string]string{"llm-model": "gpt-nobody"}, says: []string{"gpt-nobody", "scripted"}},
		{rare: true, name: "NoSuchBucket", with: map[string]string{"out": "s3://nobody-made-it/data"}, says: []string{"nobody-made-it", "s3 mb"}},
		{name: "StoreAway", change: func(what string, o map[string]any) bool {
			switch what {
			case "configmap/orchard-settings":
				o["data"].(map[string]any)["AWS_ENDPOINT_URL_S3"] = away
			case "configmap/artifact-repositories": // the same store
				data := o["data"].(map[string]any)
				data["orchard"] = strings.ReplaceAll(data["orchard"].(string), "198.18.255.1:9000", strings.TrimPrefix(away, "http://"))
			}
			return true
		}, says: []string{"127.0.0.1:1", "still so after 1m0s"}},
		{name: "NoSecret", change: func(what string, _ map[string]any) bool { return what != "secret/orchard-credentials" },
			says: []string{"AWS_ACCESS_KEY_ID"}},
		{rare: true, name: "WrongSecret", change: func(what string, o map[string]any) bool {
			if what == "secret/orchard-credentials" {
				o["data"].(map[string]any)["AWS_SECRET_ACCESS_KEY"] = "d3Jvbmc="
			}
			return true
		}, says: []string{"secret"}},
		{name: "NoTemplate", change: func(what string, _ map[string]any) bool { return what != "workflowtemplate/orchard-stages-v1" },
			never: true, says: []string{"orchard-stages-v1", "not found"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rare && !soak {
				t.Skip("make soak runs this")
			}
			t.Parallel()
			ns := namespace
			if c.change != nil {
				ns = scratch(t, c.change)
			}
			p := map[string]string{"tasks": "examples", "out": prefix(t), "limit": "1", "rollouts": "1", "run-id": unique(t)}
			for name, value := range c.with {
				p[name] = value
			}
			s := submit(t, ns, "swe-sft", p)
			began := time.Now()
			select {
			case <-s.ended:
			case <-time.After(early):
				t.Fatalf("it has not ended after %v", early)
			}
			said := s.said
			if w, ok := s.now(); ok {
				said = s.get()
				t.Logf("%s after %v:\n%s", w.Status.Phase, time.Since(began).Round(time.Second), said)
			} else if !c.never {
				t.Errorf("argo submit refused it: %v: %s", s.err, said)
			}
			if s.err == nil {
				t.Error("argo submit --wait says that it succeeded")
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
		})
	}
}

// A quota that is too small may be one that others use up, so Argo waits; `argo get` shows the
// quota's own words, and the run goes on when there is room.
func TestSmallQuota(t *testing.T) {
	t.Parallel()
	ns := scratch(t, func(what string, _ map[string]any) bool { return what != "secret/orchard-credentials" })
	quota := func(memory string) {
		apply(t, map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "small", "namespace": ns},
			"spec": map[string]any{"hard": map[string]any{"requests.memory": memory}}})
	}
	quota("128Mi")
	s := submit(t, ns, "swe-sft", map[string]string{"tasks": "examples", "out": prefix(t), "run-id": unique(t)})
	s.until("told about the quota", func() string {
		said := s.get()
		for _, want := range []string{"exceeded quota: small", "requests.memory"} {
			if !strings.Contains(said, want) {
				return said
			}
		}
		t.Log(said)
		return ""
	})
	quota("8Gi")
	s.end(early) // it fails then, for there is no Secret
	if got := s.get(); !strings.Contains(got, "AWS_ACCESS_KEY_ID") {
		t.Errorf("with room it did not begin:\n%s", got)
	}
}
