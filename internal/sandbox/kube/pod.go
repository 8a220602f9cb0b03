package kube

import (
	"crypto/ed25519"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/kube/policy"
)

// podOf is the Pod of a spec: process 1 is the agent, which an init container puts into a
// volume that the sandbox sees read-only. It needs nothing of the image, not even a shell.
func (o *Options) podOf(spec sandbox.Spec, key ed25519.PrivateKey, attempt string) (*corev1.Pod, error) {
	amount, err := o.resourcesOf(spec)
	if err != nil {
		return nil, err
	}
	record, err := encodeSpec(spec)
	if err != nil {
		return nil, err
	}
	env, err := envOf(spec, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{labelApp: appSandbox, labelID: spec.ID, policy.Incarnation: attempt}
	if labelValue.MatchString(spec.Owner) {
		labels[labelOwner] = spec.Owner
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(spec.ID), Namespace: o.Namespace, Labels: labels,
			Annotations: map[string]string{annotSpec: record, annotAttempt: attempt},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  ptr(false),
			EnableServiceLinks:            ptr(false),
			TerminationGracePeriodSeconds: ptr(int64(1)), // the agent, as process 1, hears no SIGTERM
			SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes: []corev1.Volume{
				{Name: "agent", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(128<<20, resource.BinarySI)}}},
				{Name: "spool", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: amount.disk}}},
			},
			InitContainers: []corev1.Container{{
				Name: "agent", Image: o.AgentImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{"copy", agentProgram},
				// The same as the sandbox's: a Pod needs the larger of both, and is Guaranteed
				// only when every container is.
				Resources:       corev1.ResourceRequirements{Requests: amount.withoutGPU(amount.requests), Limits: amount.withoutGPU(amount.limits)},
				SecurityContext: closed(nil),
				VolumeMounts:    []corev1.VolumeMount{{Name: "agent", MountPath: agentFolder}},
			}},
			Containers: []corev1.Container{{
				Name: containerName, Image: spec.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{agentProgram}, Env: env,
				Ports:           []corev1.ContainerPort{{Name: "agent", ContainerPort: agentPort}},
				Resources:       corev1.ResourceRequirements{Requests: amount.requests, Limits: amount.limits},
				SecurityContext: closed(o.Capabilities),
				// Nobody waits for it: it leaves a mark on the Pod that its agent has served.
				ReadinessProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: "/v1/health", Port: intstr.FromInt32(agentPort), Scheme: corev1.URISchemeHTTPS,
					}},
					PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3,
				},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "agent", MountPath: agentFolder, ReadOnly: true},
					{Name: "spool", MountPath: spoolFolder},
				},
			}},
		},
	}
	if spec.Lifetime > 0 {
		pod.Spec.ActiveDeadlineSeconds = ptr(max(1, int64(math.Ceil(spec.Lifetime.Seconds()))))
	}
	if err := identify(pod, key); err != nil {
		return nil, err
	}
	o.Network.tell(&pod.Spec.Containers[0], spec)
	o.place(pod, spec.Placement)
	return pod, nil
}

// closed is a container without privileges, but for the capabilities that an operator gave.
func closed(add []string) *corev1.SecurityContext {
	caps := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	for _, c := range add {
		caps.Add = append(caps.Add, corev1.Capability(c))
	}
	// Whoever may become another user may leave processes that the agent cannot end.
	if slices.Contains(add, "SETUID") && !slices.Contains(add, "KILL") {
		caps.Add = append(caps.Add, "KILL")
	}
	return &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), Privileged: ptr(false), Capabilities: caps}
}

// envOf is the agent's own variables, which commands do not get, and then the user's.
func envOf(spec sandbox.Spec, key ed25519.PublicKey) ([]corev1.EnvVar, error) {
	env := []corev1.EnvVar{
		{Name: agentPrefix + "UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
		{Name: agentPrefix + "KEYS", Value: wire.FormatPublicKey(key)},
		{Name: agentPrefix + "LEASE", Value: spec.Lease.String()},
		{Name: agentPrefix + "SPOOL", Value: spoolFolder},
	}
	if spec.Workdir != "" {
		env = append(env, encodeEnv(agentPrefix+"CWD", spec.Workdir))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if strings.HasPrefix(name, agentPrefix) {
			return nil, refuse(spec, "env: names that begin with %s are the agent's: %s", agentPrefix, name)
		}
		env = append(env, encodeEnv(name, spec.Env[name]))
	}
	return env, nil
}

func ptr[T any](v T) *T { return &v }
