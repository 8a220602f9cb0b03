package argocheck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"orchard/internal/exit"
	"orchard/internal/sandbox/kube/argocheck"
)

const namespace = "pipelines"

// site is an API server that knows one namespace, and what is in it.
type site struct {
	status string // of the Workflow, as JSON; it is there from the second look on
	pods   []core.Pod
	events []core.Event
	log    string
	refuse map[string]refusal // by "VERB path"

	mu        sync.Mutex
	submitted map[string]any
	looks     int
	deleted   []string
}

// refusal is the answer to a request that is not granted.
type refusal struct {
	code    int
	reason  meta.StatusReason
	message string
}

const base = "/apis/argoproj.io/v1alpha1/namespaces/" + namespace + "/workflows"

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	if no, ok := s.refuse[r.Method+" "+r.URL.Path]; ok {
		answer(no.code, meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(no.code), Reason: no.reason, Message: no.message})
		return
	}
	core1 := "/api/v1/namespaces/" + namespace
	switch r.Method + " " + r.URL.Path {
	case "POST " + base:
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &s.submitted)
		}
		if err != nil {
			answer(http.StatusBadRequest, err.Error())
			return
		}
		answer(http.StatusCreated, map[string]any{"metadata": map[string]any{"name": "orchard-check-x"}})
	case "GET " + base + "/orchard-check-x":
		status := json.RawMessage("{}")
		if s.looks++; s.looks > 1 && s.status != "" {
			status = json.RawMessage(s.status)
		}
		answer(http.StatusOK, map[string]any{"metadata": map[string]any{"name": "orchard-check-x"}, "status": status})
	case "DELETE " + base + "/orchard-check-x":
		raw, _ := io.ReadAll(r.Body)
		s.deleted = append(s.deleted, string(raw))
		answer(http.StatusOK, map[string]any{})
	case "GET " + core1 + "/pods":
		answer(http.StatusOK, core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.pods})
	case "GET " + core1 + "/events":
		answer(http.StatusOK, core.EventList{TypeMeta: meta.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: s.events})
	case "GET " + core1 + "/pods/orchard-check-x/log":
		_, _ = io.WriteString(w, s.log)
	default:
		answer(http.StatusNotFound, meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404, Reason: meta.StatusReasonNotFound, Message: "the server could not find the requested resource"})
	}
}

// try runs a check against s.
func try(ctx context.Context, t *testing.T, s *site, wait time.Duration) (string, error) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 1000, Burst: 1000,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return argocheck.Try(ctx, client, argocheck.Options{Namespace: namespace, Image: "registry.example/stage@sha256:0", Wait: wait})
}

func TestWorkflowRuns(t *testing.T) {
	t.Parallel()
	s := &site{status: `{"phase": "Succeeded"}`}
	said, err := try(t.Context(), t, s, time.Minute)
	if err != nil || !strings.HasPrefix(said, "Argo ran a Workflow in ") {
		t.Fatalf("%q, %v", said, err)
	}
	if want := []string{`{"propagationPolicy":"Background"}`}; !slices.Equal(s.deleted, want) {
		t.Errorf("deleted with %q, want %q", s.deleted, want)
	}
	raw, err := yaml.Marshal(s.submitted)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"value: registry.example/stage@sha256:0", "serviceAccountName: orchard-stage", "serviceAccountName: orchard-executor", "automountServiceAccountToken: false", "app.kubernetes.io/component: stage"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is not in what was submitted:\n%s", want, raw)
		}
	}
}

// pod is the Workflow's, with one container's state.
func pod(state core.ContainerState) []core.Pod {
	return []core.Pod{{ObjectMeta: meta.ObjectMeta{Name: "orchard-check-x"}, Status: core.PodStatus{ContainerStatuses: []core.ContainerStatus{{Name: "wait", State: state}}}}}
}

func warning(of, reason, message string) core.Event {
	return core.Event{InvolvedObject: core.ObjectReference{Name: of}, Type: "Warning", Reason: reason, Message: message}
}

// Each trouble is named, with what to do.
func TestSaysWhy(t *testing.T) {
	t.Parallel()
	const right = `workflowtaskresults.argoproj.io is forbidden: User "system:serviceaccount:pipelines:orchard-executor" cannot %s resource "workflowtaskresults" in API group "argoproj.io" in the namespace "pipelines"`
	const names = `ServiceAccount orchard-executor of namespace pipelines may not %s workflowtaskresults; a Role bound to it must grant {apiGroups: ["argoproj.io"], resources: ["workflowtaskresults"], verbs: ["%[1]s"]}`
	running := `{"phase": "Running", "nodes": {"x": {"type": "Pod", "phase": "Running"}}}`
	pending := func(message string) string {
		return fmt.Sprintf(`{"phase": "Running", "nodes": {"x": {"type": "Pod", "phase": "Pending", "message": %q}}}`, message)
	}
	for name, c := range map[string]struct {
		site *site
		says string
	}{
		"no Argo": {&site{refuse: map[string]refusal{"POST " + base: {404, meta.StatusReasonNotFound, "the server could not find the requested resource"}}},
			"the cluster knows no Workflows: install Argo Workflows"},
		"own right": {&site{refuse: map[string]refusal{"POST " + base: {403, meta.StatusReasonForbidden, `User "x" cannot create resource "workflows"`}}},
			`submit a Workflow in namespace pipelines: User "x" cannot create resource "workflows"`},
		"nobody watches": {&site{}, "no Argo controller took the Workflow within 1s: none runs, or it does not watch namespace pipelines"},
		"executor may not create": {&site{status: fmt.Sprintf(`{"phase": "Error", "nodes": {"x": {"phase": "Error", "message": %q}}}`, "wait: Error (exit code 64): "+fmt.Sprintf(right, "create"))},
			fmt.Sprintf(names, "create")},
		"executor may not patch": {&site{status: running, pods: pod(core.ContainerState{Terminated: &core.ContainerStateTerminated{Message: fmt.Sprintf(right, "patch")}})},
			fmt.Sprintf(names, "patch")},
		"as its log says": {&site{status: running, pods: pod(core.ContainerState{}), log: "time=x level=info msg=fine\nlevel=warning error=" + fmt.Sprintf("%q", fmt.Sprintf(right, "patch")) + "\n"},
			fmt.Sprintf(names, "patch")},
		"quota": {&site{status: pending(`pods "orchard-check-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`)},
			"the namespace's ResourceQuota has no room for a step's Pod: pods"},
		"Pod Security": {&site{status: `{"phase": "Error", "message": "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": privileged"}`},
			"the namespace's Pod Security level refuses a step's Pod"},
		"account": {&site{status: `{"phase": "Error", "message": "serviceaccounts \"orchard-executor\" not found"}`},
			`a ServiceAccount of the chart is missing; helm upgrade makes it again: serviceaccounts "orchard-executor" not found`},
		"Secret": {&site{status: running, pods: pod(core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}}),
			events: []core.Event{warning("other", "FailedMount", `secret "theirs" not found`), warning("orchard-check-x", "FailedMount", `MountVolume.SetUp failed for volume "exec-sa-token" : secret "orchard-executor.service-account-token" not found`)}},
			`a Secret is missing; helm upgrade makes those of the chart again: FailedMount: MountVolume.SetUp failed for volume "exec-sa-token" : secret "orchard-executor.service-account-token" not found`},
		"image": {&site{status: running, pods: pod(core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}})},
			"see stageImage and imagePullSecrets: ImagePullBackOff: Back-off pulling image"},
		"no room": {&site{status: pending("Unschedulable: 0/3 nodes are available")}, "no node has room for a step's Pod: Unschedulable: 0/3 nodes are available"},
		"anything": {&site{status: `{"phase": "Failed", "nodes": {"x": {"message": "main: Error (exit code 78): something new"}}}`},
			"the Workflow is Failed after at most 1s: main: Error (exit code 78): something new"},
		"nothing": {&site{status: running}, "the Workflow is Running after at most 1s: it does not say why"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := try(t.Context(), t, c.site, time.Second)
			if exit.Code(err) != exit.Config || !strings.Contains(fmt.Sprint(err), c.says) || strings.Contains(fmt.Sprint(err), "theirs") {
				t.Errorf("%q, %v\nwant exit code 78 and %q", said, err, c.says)
			}
			if c.site.submitted != nil && len(c.site.deleted) != 1 {
				t.Errorf("the Workflow was deleted %d times", len(c.site.deleted))
			}
		})
	}
}

// A cluster that is away is no fault of what was installed.
func TestClusterAway(t *testing.T) {
	t.Parallel()
	away := refusal{http.StatusInternalServerError, meta.StatusReasonInternalError, "etcd is away"}
	for _, path := range []string{"POST " + base, "GET " + base + "/orchard-check-x"} {
		if _, err := try(t.Context(), t, &site{refuse: map[string]refusal{path: away}}, time.Second); exit.Code(err) != exit.Gone || !strings.Contains(fmt.Sprint(err), "etcd is away") {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Told to stop, it still removes what it made.
	ctx, stop := context.WithCancel(t.Context())
	s := &site{status: `{"phase": "Running"}`}
	time.AfterFunc(300*time.Millisecond, stop)
	if _, err := try(ctx, t, s, time.Minute); exit.Code(err) != exit.Retry || len(s.deleted) != 1 {
		t.Errorf("stopped: %v, deleted %d times", err, len(s.deleted))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]argocheck.Options{
		"--workflow-namespace": {Image: "x", Wait: time.Second}, "--stage-image": {Namespace: "x", Wait: time.Second}, "--wait": {Namespace: "x", Image: "x"},
	} {
		if err := o.Validate(); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
