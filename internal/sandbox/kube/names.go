package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/kube/policy"
)

// What the objects of a sandbox are called and carry. A user's own labels are only in
// the spec's annotation: as labels of the Pod they could match somebody's selector.
const (
	labelApp      = policy.App
	appSandbox    = policy.AppSandbox
	appTombstone  = "sandbox-tombstone"
	appPool       = "sandbox-pool"
	appTicket     = "sandbox-ticket"
	labelPool     = "orchard.dev/pool" // of idle Pods: which pool they wait in
	labelID       = "sandbox-id"
	labelOwner    = "orchard.dev/owner"
	annotSpec     = "orchard.dev/spec"     // the Spec without Env, which is the container's
	annotAttempt  = "orchard.dev/attempt"  // random: which create made the Pod
	annotIdentity = "orchard.dev/identity" // random: the name that the Pod's agent proves
	containerName = "sandbox"
	agentPort     = 9090
	agentFolder   = "/opt/orchard"
	agentProgram  = agentFolder + "/orchard-agent"
	spoolFolder   = "/run/orchard"
	agentPrefix   = "ORCHARD_AGENT_" // of the agent's own variables, which no user may set
)

var (
	sandboxID  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

func podName(id string) string { return "sandbox-" + id }

// tombstoneName is one name per incarnation, so that of several who write it one wins.
func tombstoneName(id, uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return "sandbox-end-" + id + "-" + hex.EncodeToString(sum[:6])
}

// selector is the Pods, or tombstones, of all sandboxes.
func selector(app string) string { return labelApp + "=" + app }

// idOf is whose Pod or tombstone an object is; "" is nobody's.
func idOf(o metav1.Object) string {
	switch labels := o.GetLabels(); labels[labelApp] {
	case appSandbox, appTombstone, appTicket:
		return labels[labelID]
	}
	return ""
}

// encodeSpec is what a Pod or a tombstone keeps of a spec: everything but the environment.
func encodeSpec(spec sandbox.Spec) (string, error) {
	spec.Env = nil
	raw, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encode spec of sandbox %s: %w", spec.ID, err)
	}
	return string(raw), nil
}

// specOf is the spec that a Pod was made of.
func specOf(pod *corev1.Pod) (sandbox.Spec, error) {
	spec := sandbox.Spec{ID: idOf(pod)}
	if err := json.Unmarshal([]byte(pod.Annotations[annotSpec]), &spec); err != nil {
		return spec, fmt.Errorf("read annotation %s of Pod %s: %w", annotSpec, pod.Name, err)
	}
	spec.ID = idOf(pod)
	for _, c := range pod.Spec.Containers {
		if c.Name == containerName {
			spec.Env = decodeEnv(c.Env)
		}
	}
	return spec, nil
}

// encodeEnv writes variables so that the kubelet, which replaces $(NAME) and halves $$,
// gives a container just what was meant.
func encodeEnv(name, value string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")}
}

// decodeEnv is the user's variables of a container.
func decodeEnv(vars []corev1.EnvVar) map[string]string {
	env := map[string]string{}
	for _, v := range vars {
		if !strings.HasPrefix(v.Name, agentPrefix) {
			env[v.Name] = strings.ReplaceAll(v.Value, "$$", "$")
		}
	}
	if len(env) == 0 {
		return nil
	}
	return env
}
