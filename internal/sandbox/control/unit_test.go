package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	k := ParseKeys("one, two\nthree\tfour,,")
	for key, want := range map[string]bool{"one": true, "two": true, "three": true, "four": true, "": false, "on": false, "one,": false} {
		if c, ok := k.find(key); ok != want || ok && c.name != DefaultOwner {
			t.Errorf("find(%q) = %+v, %v", key, c, ok)
		}
	}
	if k.Len() != 4 || ParseKeys(" \n").Len() != 0 {
		t.Errorf("Len = %d", k.Len())
	}
	if s := fmt.Sprintf("%v %+v %s", k, Settings{Keys: k}, k); strings.Contains(s, "one") {
		t.Errorf("keys are printed: %s", s)
	}
	if a, b := NewKey(), NewKey(); a == b || len(a) != 48 {
		t.Errorf("NewKey gave %q and %q", a, b)
	}
}

func TestJobIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := State{UID: rapid.String().Draw(t, "uid"), Spec: sandbox.Spec{ID: rapid.StringMatching(sandboxID.String()).Draw(t, "id")}}
		timeout := time.Duration(rapid.Int64Range(1, maxDuration.Milliseconds()).Draw(t, "ms")) * time.Millisecond
		now := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "now"))
		id := newJobID(st, timeout, now)
		got, ok := parseJobID(id)
		want := jobID{st.Spec.ID, uidHash(st.UID), now, timeout}
		if !ok || got.sandbox != want.sandbox || got.uid != want.uid || !got.created.Equal(now) || got.timeout != timeout {
			t.Fatalf("parseJobID(%q) = %+v %v, want %+v", id, got, ok, want)
		}
		if len(id) > 128 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Fatalf("%q is no job id for an agent", id)
		}
	})
	rapid.Check(t, func(t *rapid.T) { parseJobID(rapid.String().Draw(t, "any")) })
}

func TestSettingsValidate(t *testing.T) {
	t.Parallel()
	good := Defaults()
	good.Keys = ParseKeys("k")
	if err := good.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Settings{RequireKey: true, PathPrefix: "x/", DefaultCPU: "a", DefaultMemory: "", DefaultWorkdir: "w", DefaultTimeout: -1, MaxBody: 1, Drain: -1}
	err := bad.Validate()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, flag := range []string{"API_KEYS", "--path-prefix", "--default-cpu", "--default-memory", "--default-working-dir", "--default-timeout", "--max-body", "--drain", "--sandbox-ttl"} {
		if !strings.Contains(err.Error(), flag+":") {
			t.Errorf("the error does not name %s:\n%v", flag, err)
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"command":"true"}`, `{"command":["a","b"],"wait":1,"env":{"A":1}}`, `{"argv":["x"],"stdin":"y","timeout_seconds":"1e3"}`,
		`{"image":"i","cpu":4,"memory":"1Gi","labels":{"a":"b"},"sandbox_id":"x"}`, `[]`, `null`, `{"command":null}`, `{"command":"\ud800"}`, `{`, `{"timeout_seconds":-0}`,
		`{"stdin_base64":"!"}`, `{"path":"x","content":"eA=="}`, `{"command":1e400,"idle_timeout_seconds":1e400}`,
	} {
		f.Add([]byte(seed))
	}
	set := Defaults()
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseBody(raw)
		if err != nil {
			if _, marshalErr := seal.JSON(err); marshalErr != nil {
				t.Fatal(marshalErr)
			}
			return
		}
		req, wait, err := parseExec(b, set)
		if err == nil {
			timeout := time.Duration(req.TimeoutMS) * time.Millisecond
			if (req.Shell == "") == (len(req.Argv) == 0) || timeout <= 0 || timeout > set.MaxTimeout || wait < 0 || wait > timeout+answerGrace {
				t.Fatalf("%s gives %+v, wait %v", raw, req, wait)
			}
		}
		b, _ = parseBody(raw)
		spec, err := parseSpec(b, set)
		if err == nil {
			if spec.ID != "" && !sandboxID.MatchString(spec.ID) || spec.Image == "" || spec.Lifetime <= 0 || spec.ReadyTimeout <= 0 {
				t.Fatalf("%s gives %+v", raw, spec)
			}
			if diff := difference(spec, spec); diff != "" {
				t.Fatalf("%s differs from itself in %s", raw, diff)
			}
		}
	})
}
