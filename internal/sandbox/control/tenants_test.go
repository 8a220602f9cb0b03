package control_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/sandbox/control"
)

const (
	aliceKey = "key-of-alice"
	bobKey   = "key-of-bob"
	rootKey  = "key-of-root"
)

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// keyFile is alice, with a quota, bob and an admin.
func keyFile(t testing.TB, quota string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("- {name: alice, sha256: %s, quota: {%s}}\n- name: bob\n  sha256: %s\n- {name: root, sha256: %s, admin: true}\n",
		sum(aliceKey), quota, sum(bobKey), sum(rootKey))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tenantRig(t testing.TB, quota string) *rig {
	t.Helper()
	return newRig(t, func(s *control.Settings) { s.KeysFile = keyFile(t, quota) })
}

// as is do with another key.
func (r *rig) as(key, method, path string, body any) answer {
	r.t.Helper()
	return r.do(method, path, body, "X-API-Key", key)
}

// Whatever the route, another owner's sandbox and its jobs answer as those that were never
// there. This walks the service's own table, so a route added later is in it.
func TestOthersAreUnknown(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "")
	r.as(aliceKey, "POST", "/sandboxes", obj{"image": "host", "sandbox_id": "hers"})
	r.as(aliceKey, "GET", "/sandboxes/hers/wait", nil)
	job := r.as(aliceKey, "POST", "/sandboxes/hers/exec", obj{"command": "sleep 300"}).str("job_id")
	body := obj{"command": "touch " + r.work + "/intruder", "patch": "x", "path": r.work + "/intruder", "content": "", "sig": "KILL", "port": 80, "egress": []obj{}}
	otherJob := strings.Replace(job, "-hers", "-none", 1)
	walked := 0
	for pattern, methods := range r.s.Table() {
		if !strings.Contains(pattern, "{id}") {
			continue
		}
		theirs, none := "hers", "none"
		if strings.HasPrefix(pattern, "/jobs/") {
			theirs, none = job, otherJob
		}
		at := func(id string) string { return strings.ReplaceAll(pattern, "{id}", id) + "?path=/etc/hostname" }
		for _, method := range methods {
			walked++
			header := []string{"X-API-Key", bobKey}
			if strings.HasSuffix(pattern, "/pty") {
				header = append(header, "Connection", "Upgrade", "Upgrade", "websocket")
			}
			got, want := r.do(method, at(theirs), body, header...), r.do(method, at(none), body, header...)
			if want.status != http.StatusNotFound && method != "DELETE" {
				t.Errorf("%s %s of an unknown one answers %d %s", method, pattern, want.status, want.raw)
			}
			if got.status != want.status || strings.ReplaceAll(string(got.raw), theirs, none) != string(want.raw) {
				t.Errorf("%s %s of another's answers %d %s, of an unknown one %d %s", method, pattern, got.status, got.raw, want.status, want.raw)
			}
			if got.status < 300 && method != "DELETE" {
				t.Errorf("%s %s of another's answers %d %s", method, pattern, got.status, got.raw)
			}
		}
	}
	if walked < 14 {
		t.Errorf("only %d routes were tried", walked)
	}
	if exists(r.work + "/intruder") {
		t.Error("a command or file of bob's is in alice's sandbox")
	}
	if a := r.as(aliceKey, "GET", "/jobs/"+job, nil); a.str("status") != "running" {
		t.Errorf("alice's job afterwards: %s", a.raw)
	}
	if a := r.as(rootKey, "GET", "/jobs/"+job, nil); a.status != 200 {
		t.Errorf("an admin's look at alice's job: %d %s", a.status, a.raw)
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	r := tenantRig(t, "")
	for _, c := range []struct{ key, id string }{{aliceKey, "a"}, {bobKey, "b"}, {testKey, "c"}} {
		r.as(c.key, "POST", "/sandboxes", obj{"image": "i", "sandbox_id": c.id})
	}
	ids := func(key, query string) string {
		var out []string
		boxes, _ := r.as(key, "GET", "/sandboxes"+query, nil).json["sandboxes"].([]any)
		for _, b := range boxes {
			v := b.(map[string]any)
			out = append(out, fmt.Sprint(v["sandbox_id"], "/", v["owner"]))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ key, query, want string }{
		{aliceKey, "", "a/alice"}, {bobKey, "", "b/bob"}, {testKey, "", "c/default"},
		{rootKey, "", "a/alice b/bob c/default"}, {rootKey, "?owner=bob", "b/bob"}, {aliceKey, "?owner=bob", ""},
	} {
		if got := ids(c.key, c.query); got != c.want {
			t.Errorf("list%s with %s: %q, want %q", c.query, c.key, got, c.want)
		}
	}
	taken := func(when, key, id string, want int) {
		t.Helper()
		a := r.as(key, "POST", "/sandboxes", obj{"image": "i", "sandbox_id": id})
		if a.status != want || want == http.StatusConflict && a.str("detail") != "Sandbox id "+id+" is taken" {
			t.Errorf("create with %s's id %s: %d %s, want %d", id, when, a.status, a.raw, want)
		}
	}
	taken("in use", bobKey, "a", http.StatusConflict)
	taken("in use, by an admin", rootKey, "a", http.StatusConflict)
	if pods := r.as(aliceKey, "GET", "/resources", nil).json["sandbox_pods"].([]any); len(pods) != 1 {
		t.Errorf("alice sees Pods %v", pods)
	}
	if pods := r.as(bobKey, "GET", "/resources", nil).json["sandbox_pods"].([]any); len(pods) != 0 {
		t.Errorf("bob sees Pods %v", pods)
	}
	r.rt.End("a", control.ReasonEvicted, "")
	taken("ended", bobKey, "a", http.StatusConflict)
	if a := r.as(aliceKey, "GET", "/sandboxes/a", nil); a.str("reason") != control.ReasonEvicted || a.json["retryable"] != true {
		t.Errorf("alice's ended sandbox: %s", a.raw)
	}
	r.as(rootKey, "DELETE", "/sandboxes/b", nil)
	taken("deleted", aliceKey, "b", http.StatusOK)
	metrics := string(r.do("GET", "/metrics", nil).raw)
	if !strings.Contains(metrics, `orchard_sandboxes_live{owner="alice"} 1`) {
		t.Error("the metrics do not count alice's sandboxes")
	}
	for _, never := range []string{aliceKey, sum(aliceKey)} {
		if strings.Contains(metrics, never) {
			t.Errorf("the metrics hold %s", never)
		}
	}
}

// Without keys everybody is an admin, and what they make is the flat keys'.
func TestOwnershipWithoutKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *control.Settings) { s.RequireKey = false })
	r.do("POST", "/sandboxes", obj{"image": "i", "sandbox_id": "x"}, "X-API-Key", "")
	if a := r.do("GET", "/sandboxes/x", nil, "X-API-Key", "whatever"); a.str("owner") != control.DefaultOwner {
		t.Errorf("sandbox: %s", a.raw)
	}
}
