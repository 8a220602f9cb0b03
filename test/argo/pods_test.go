package argo

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// first is the first value that is there: a template's own, else its workflow's.
func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// argos says whether a container is Argo's own, beside the stage: its controller gives them
// no security context of theirs.
func argos(name string) bool { return name == "init" || name == "wait" }

// pod is what Argo makes of a call.
func (c call) pod() (*core.PodSpec, error) {
	w, t := c.pipeline.Spec, c.leaf
	spec := core.PodSpec{
		RestartPolicy:                core.RestartPolicyNever,
		ServiceAccountName:           t.ServiceAccountName,
		AutomountServiceAccountToken: first(t.AutomountServiceAccountToken, w.AutomountServiceAccountToken),
		SecurityContext:              first(t.SecurityContext, w.SecurityContext),
		Volumes:                      append(append([]core.Volume{}, w.Volumes...), t.Volumes...),
		HostNetwork:                  w.HostNetwork != nil && *w.HostNetwork,
	}
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = w.ServiceAccountName
	}
	if t.Container != nil {
		main := *t.Container
		main.Name = "main"
		spec.Containers = append(spec.Containers, main)
	}
	executor := core.Container{Name: "wait", Image: "quay.io/argoproj/argoexec", Command: []string{"argoexec", "wait"}}
	spec.Containers = append([]core.Container{executor}, spec.Containers...)
	executor.Name, executor.Command = "init", []string{"argoexec", "init"}
	spec.InitContainers = append(spec.InitContainers, executor)
	for _, u := range t.InitContainers {
		spec.InitContainers = append(spec.InitContainers, u.Container)
	}
	for _, u := range t.Sidecars {
		spec.Containers = append(spec.Containers, u.Container)
	}
	for _, patch := range []string{w.PodSpecPatch, t.PodSpecPatch} {
		if patch == "" {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(patch), &core.PodSpec{}); err != nil {
			return nil, fmt.Errorf("podSpecPatch: %w", err) // Argo drops what it does not know
		}
		change, err := yaml.YAMLToJSON([]byte(patch))
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			return nil, err
		}
		if raw, err = strategicpatch.StrategicMergePatch(raw, change, core.PodSpec{}); err != nil {
			return nil, fmt.Errorf("podSpecPatch: %w", err)
		}
		spec = core.PodSpec{}
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, fmt.Errorf("podSpecPatch: %w", err)
		}
	}
	return &spec, nil
}

// pods calls f for the Pod of every call.
func (s *set) pods(bad report, f func(c call, spec *core.PodSpec)) {
	calls, _ := s.calls()
	for _, c := range calls {
		spec, err := c.pod()
		if err != nil {
			bad("%s: %v", c.at, err)
			continue
		}
		f(c, spec)
	}
}

// podSecurity is the API server's own judgement of level restricted, and what it does
// not ask: a read-only root, no token, and another account for Argo's container.
func podSecurity(s *set, bad report) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		bad("%v", err)
		return
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	s.pods(bad, func(c call, spec *core.PodSpec) {
		labels := &meta.ObjectMeta{Labels: c.leaf.Metadata.Labels, Annotations: c.leaf.Metadata.Annotations}
		if got := policy.AggregateCheckResults(judge.EvaluatePod(restricted, labels, spec)); !got.Allowed {
			bad("%s: Pod Security restricted: %s: %s", c.at, got.ForbiddenReason(), got.ForbiddenDetail())
		}
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			bad("%s: automountServiceAccountToken is not false: a stage has no business with Kubernetes", c.at)
		}
		executor := first(c.leaf.Executor, c.pipeline.Spec.Executor)
		if executor == nil || executor.ServiceAccountName == "" || executor.ServiceAccountName == spec.ServiceAccountName {
			bad("%s: executor.serviceAccountName is missing or the stage's own: without it Argo cannot report, with it the stage could", c.at)
		}
		if spec.ServiceAccountName == "" || spec.ServiceAccountName == "default" {
			bad("%s: no service account of its own", c.at)
		}
		for _, m := range spec.Containers {
			if argos(m.Name) {
				continue
			}
			if m.SecurityContext == nil || m.SecurityContext.ReadOnlyRootFilesystem == nil || !*m.SecurityContext.ReadOnlyRootFilesystem {
				bad("%s: container %s: the root file system is not read-only", c.at, m.Name)
			}
			if !writableTmp(spec, m) {
				bad("%s: container %s: /tmp is no emptyDir with a sizeLimit, and nothing else can be written", c.at, m.Name)
			}
		}
	})
}

func writableTmp(spec *core.PodSpec, m core.Container) bool {
	for _, mount := range m.VolumeMounts {
		for _, v := range spec.Volumes {
			if mount.MountPath == "/tmp" && !mount.ReadOnly && v.Name == mount.Name {
				return v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil
			}
		}
	}
	return false
}

var byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// images are a parameter of the run, or named by digest: what ran can be told later.
func images(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if t.Container == nil {
			return
		}
		if image := t.Container.Image; !byDigest.MatchString(image) && image != "{{workflow.parameters.image}}" && image != "{{inputs.parameters.image}}" {
			bad("%s: image %q is neither the parameter image nor named by digest", at, image)
		}
	})
	for _, w := range s.pipelines() {
		if p := w.Spec.Arguments.GetParameterByName("image"); p != nil && p.Value != nil && !byDigest.MatchString(p.Value.String()) {
			bad("%s: the default of image, %q, is not named by digest", w.Name, p.Value)
		}
	}
}

// commands are given: without one Argo asks the image's registry, which it may not reach.
func commands(s *set, bad report) {
	s.pods(bad, func(c call, spec *core.PodSpec) {
		for _, m := range spec.Containers {
			if !argos(m.Name) && (len(m.Command) == 0 || !path.IsAbs(m.Command[0])) {
				bad("%s: container %s: command %q is not the path of a program", c.at, m.Name, m.Command)
			}
		}
	})
}

// resources are asked for, and a Pod that takes more memory than it may is its own fault.
func resources(s *set, bad report) {
	s.pods(bad, func(c call, spec *core.PodSpec) {
		for _, m := range append(spec.Containers, spec.InitContainers...) {
			for what, q := range map[string]*resource.Quantity{
				"requests.cpu": m.Resources.Requests.Cpu(), "requests.memory": m.Resources.Requests.Memory(), "limits.memory": m.Resources.Limits.Memory(),
			} {
				if q.Sign() <= 0 {
					bad("%s: container %s: resources.%s is not given", c.at, m.Name, what)
				}
			}
			if m.Resources.Requests.Memory().Cmp(*m.Resources.Limits.Memory()) > 0 {
				bad("%s: container %s: asks for more memory than its limit", c.at, m.Name)
			}
		}
	})
}

// saving is what a stage has between its own deadline and its Pod's: running units end,
// and what they made is stored.
const saving = 10 * time.Minute

// deadlines: every Pod has one, its stage has a softer one inside, and the run's is outside.
func deadlines(s *set, bad report) {
	calls, _ := s.calls()
	for _, c := range calls {
		hard := seconds(c.leaf.ActiveDeadlineSeconds)
		if hard <= 0 {
			bad("%s: activeDeadlineSeconds is not a number above 0", c.at)
			continue
		}
		if c.leaf.Container == nil {
			continue
		}
		given := ""
		for _, arg := range c.leaf.Container.Args {
			for line := range strings.Lines(strings.TrimPrefix(arg, "--options=")) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), "--deadline="); ok {
					given = v
				}
			}
		}
		soft, err := time.ParseDuration(given)
		if err != nil || soft <= 0 || soft+saving > hard {
			bad("%s: --deadline=%s is not at least %s before the Pod's %s", c.at, given, saving, hard)
		}
		if whole := c.pipeline.Spec.ActiveDeadlineSeconds; whole != nil && hard > time.Duration(*whole)*time.Second {
			bad("%s: the Pod's deadline of %s is beyond the run's", c.at, hard)
		}
	}
}

func seconds(v *intstr.IntOrString) time.Duration { return time.Duration(number(v)) * time.Second }

var secretName = regexp.MustCompile(`(^|_)(KEY|SECRET|TOKEN|PASSWORD)$`)

// secrets come from Secrets, never from the YAML.
func secrets(s *set, bad report) {
	s.pods(bad, func(c call, spec *core.PodSpec) {
		for _, m := range append(spec.Containers, spec.InitContainers...) {
			for _, e := range m.Env {
				if secretName.MatchString(e.Name) && (e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil) {
					bad("%s: container %s: %s does not come from a Secret", c.at, m.Name, e.Name)
				}
			}
		}
	})
}
