package control_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// differences are all answers that are not the original's, by request: what is
// answered instead, and why. docs/sandbox-api.md tells users the same.
var differences = map[string]struct {
	status       int
	body, reason string
}{
	"/resources": {200, `{"status":"ok"}`,
		"the original's failure was caused by its recording; ours has a runtime that answers"},
	`-X POST /sandboxes -d {"image":"other:2","sandbox_id":"a1","cpu":"1"}`: {409, `{"detail":"Sandbox a1 exists with another image"}`,
		"the original says yes and gives the old sandbox under the new image's name"},
	`-X POST /sandboxes -d {"image":"i","sandbox_id":"BAD"}`: {422, `{"detail":[{"loc":["body","sandbox_id"],"msg":"sandbox_id must be 1 to 63 lower-case letters, digits and hyphens, with a letter or digit first and last","type":"value_error.str.regex"}]}`,
		"a 500 with Kubernetes' own text"},
	"/sandboxes/pend1": {200, `{"sandbox_id":"pend1","image":"i","pod_name":"sandbox-pend1","ready":false,"status":"pending","status_message":""}`,
		"a sandbox that starts is pending; the original did not see its Pod yet"},
	`-X POST /sandboxes/pend1/exec -d {"command":"true"}`: {503, `{"detail":"Sandbox pend1 is not ready"}`,
		"503 with Retry-After makes the SDK come again; on 404 it gives up"},
	"/sandboxes/pend1/files?path=/x": {503, `{"detail":"Sandbox pend1 is not ready"}`,
		"the same; 400 says that the request is wrong, and it is not"},
	"/sandboxes/a1/files?path=/etc/hostname": {200, `{"path":"/etc/hostname"}`,
		"ready is what the sandbox is, not whether somebody asked"},
	"/sandboxes/a1/wait": {200, `{"sandbox_id":"a1","namespace":"sandbox-pods","image":"i:1","pod_name":"sandbox-a1","block_network":true,"cpu":"4","memory":"16Gi","ready":true,"status":"ready","status_message":""}`,
		"it is still the first one: the second create was refused"},
	`-X POST /sandboxes/a1/exec -d {"command":"exit 124","wait":true}`: {200, `{"command":"exit 124","status":"failed","exit_code":124,"error":null}`,
		"the command's own 124 is no timeout of ours"},
	`-X POST /sandboxes/a1/files -d {"path":"/workspace/x","content":"@@not base64"}`: {422, `{"detail":[{"loc":["body","content"],"msg":"not base64: illegal base64 data at input byte 0","type":"value_error"}]}`,
		"a wrong request is not the server's failure"},
	`-X POST /sandboxes/a1/files -d {"path":"/workspace/x2","content":"a"}`: {422, `{"detail":[{"loc":["body","content"],"msg":"not base64: illegal base64 data at input byte 0","type":"value_error"}]}`,
		"a wrong request is not the server's failure"},
	"/sandboxes/a1/files?path=/tmp": {400, `{}`,
		"the agent's own status instead of a 500 around it"},
	"/sandboxes/a1/files/list": {200, `{"path":"/workspace"}`,
		"the working folder is made when the sandbox starts"},
}

// step is one exchange of the recording.
type step struct {
	request string // as recorded
	key     string
	body    string
	status  int
}

func readRecording(t *testing.T) []step {
	t.Helper()
	raw, err := os.ReadFile("testdata/original.txt")
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	ending := regexp.MustCompile(`^(.*) \[(\d+)\]$`)
	for _, line := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, ">>"); ok {
			request := strings.TrimLeft(rest, " ")
			// One space: sent without a key; two: with a wrong one; three: with the right one.
			key := []string{"", "", "wrong", testKey}[len(rest)-len(request)]
			steps = append(steps, step{request: request, key: key})
		} else if m := ending.FindStringSubmatch(line); m != nil {
			last := &steps[len(steps)-1]
			last.body = m[1]
			last.status, _ = strconv.Atoi(m[2])
		}
	}
	return steps
}

// TestRecording replays the original's recording. Every answer must hold the same
// fields with the same values, more fields allowed, except for the differences above.
func TestRecording(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.rt.Hold("pend1")
	r.rt.Hold("fail1")
	jobs := map[string]string{} // recorded job id to ours
	used := map[string]bool{}
	recorded := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	for _, s := range readRecording(t) {
		method, path, body := parseCurl(strings.ReplaceAll(s.request, "/workspace", r.work))
		switch {
		case strings.HasSuffix(path, "/fail1/wait"):
			r.rt.End("fail1", "OOMKilled", "")
		case strings.HasSuffix(path, "/a1/files?path=/etc/hostname"):
			eventually(t, "a1 ready", func() bool { return r.do("GET", "/sandboxes/a1", nil).json["ready"] == true })
		case strings.HasSuffix(path, "/apply_patch") && !used["p.txt"]:
			used["p.txt"] = true
			r.do("POST", "/sandboxes/a1/files", obj{"path": r.work + "/p.txt", "content": "bDEK"})
		}
		if id := recorded.FindString(path); id != "" {
			if jobs[id] == "" { // submitted off the record, behind a running one
				jobs[id] = r.do("POST", "/sandboxes/a1/exec", obj{"command": "true"}).str("job_id")
			}
			path = strings.Replace(path, id, jobs[id], 1)
		}
		header := []string{"X-API-Key", s.key}
		got := r.do(method, path, body, header...)
		wantStatus, wantBody := s.status, s.body
		if d, ok := differences[s.request]; ok && !(s.request == "/resources" && s.key == "") {
			wantStatus, wantBody = d.status, d.body
			used[s.request] = true
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(wantBody), &want); err != nil {
			t.Fatalf("%s: recorded body: %v", s.request, err)
		}
		if id, _ := want["job_id"].(string); id != "" {
			jobs[id] = got.str("job_id")
		}
		text := strings.ReplaceAll(string(got.raw), r.work, "/workspace")
		var have any
		if err := json.Unmarshal([]byte(text), &have); err != nil {
			t.Errorf("%s: answer %s: %v", s.request, got.raw, err)
			continue
		}
		if got.status != wantStatus {
			t.Errorf("%s: status %d, want %d: %s", s.request, got.status, wantStatus, got.raw)
		}
		if diff := cmp.Diff(normal(want), normal(restrict(have, want))); diff != "" {
			t.Errorf("%s: answer differs (-original +ours):\n%s", s.request, diff)
		}
	}
	for request := range differences {
		if !used[request] {
			t.Errorf("difference %q is of no request", request)
		}
	}
}

// parseCurl is the request that recorded curl arguments make.
func parseCurl(args string) (method, path, body string) {
	method = "GET"
	if rest, ok := strings.CutPrefix(args, "-X "); ok {
		method, args, _ = strings.Cut(rest, " ")
	}
	if rest, ok := strings.CutPrefix(args, "-G "); ok {
		path, args, _ = strings.Cut(rest, " --data-urlencode ")
		name, value, _ := strings.Cut(args, "=")
		return method, path + "?" + name + "=" + url.QueryEscape(value), ""
	}
	path, body, _ = strings.Cut(args, " -d ")
	return method, path, body
}

// restrict keeps of have what want has, so that extra fields are allowed.
func restrict(have, want any) any {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return have
		}
		out := map[string]any{}
		for k := range w {
			if v, ok := h[k]; ok {
				out[k] = restrict(v, w[k])
			}
		}
		return out
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return have
		}
		out := make([]any, len(w))
		for i := range w {
			out[i] = restrict(h[i], w[i])
		}
		return out
	}
	return have
}

// normal replaces what differs from run to run by its type.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			id, _ := e.(string)
			switch {
			case k == "job_id" || k == "modified" || k == "sandbox_id" && len(id) >= 8, strings.HasSuffix(k, "_at"):
				v[k] = fmt.Sprintf("%T", e)
			case k == "size" && v["type"] == "directory":
				v[k] = "any"
			default:
				v[k] = normal(e)
			}
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	}
	return v
}
