package argocheck

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/exit"
	"orchard/internal/sandbox/kube"
)

// mostText bounds a message, and mostLog what is read of a log.
const mostText, mostLog = 1024, 64 << 10

// why is what keeps the Workflow from succeeding, and what to do about it.
func (s *site) why(ctx context.Context, w *workflow) error {
	ctx, stop := context.WithTimeout(ctx, brief)
	defer stop()
	texts := s.seen(ctx, w)
	if w.Status.Phase == "" && len(texts) == 0 {
		return exit.Configf("no Argo controller took the Workflow within %v: none runs, or it does not watch namespace %s (see its --namespaced, --managed-namespace and --instanceid)", s.Wait, s.Namespace)
	}
	for _, more := range []func(context.Context, *workflow) []string{s.events, s.logs} {
		if err := cause(texts); err != nil {
			return err
		}
		texts = append(texts, more(ctx, w)...)
	}
	if err := cause(texts); err != nil {
		return err
	}
	if len(texts) == 0 {
		texts = []string{"it does not say why"}
	}
	return exit.Configf("the Workflow is %s after at most %v: %s", w.Status.Phase, s.Wait, short(strings.Join(slices.Compact(texts), "; ")))
}

// seen is what the Workflow, its steps and its Pods say of trouble.
func (s *site) seen(ctx context.Context, w *workflow) []string {
	texts := []string{w.Status.Message}
	for _, id := range slices.Sorted(maps.Keys(w.Status.Nodes)) {
		texts = append(texts, w.Status.Nodes[id].Message)
	}
	pods, err := s.pods(ctx, w)
	if err != nil {
		texts = append(texts, "list the Workflow's Pods: "+err.Error())
	}
	for _, p := range pods {
		for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if wait := c.State.Waiting; wait != nil && wait.Message != "" {
				texts = append(texts, wait.Reason+": "+wait.Message)
			}
			if end := c.State.Terminated; end != nil && end.Message != "" {
				texts = append(texts, c.Name+": "+end.Message)
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				texts = append(texts, c.Reason+": "+c.Message)
			}
		}
	}
	return slices.DeleteFunc(texts, func(t string) bool { return strings.TrimSpace(t) == "" })
}

func (s *site) pods(ctx context.Context, w *workflow) ([]corev1.Pod, error) {
	list, err := s.client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "workflows.argoproj.io/workflow=" + w.Metadata.Name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// events are the warnings about the Workflow and its Pods, whose names begin with its own.
func (s *site) events(ctx context.Context, w *workflow) []string {
	list, err := s.client.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		return []string{"list events: " + err.Error()}
	}
	var texts []string
	for _, e := range list.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, w.Metadata.Name) {
			texts = append(texts, e.Reason+": "+e.Message)
		}
	}
	return texts
}

// logs are the complaints of Argo's own container beside the step.
func (s *site) logs(ctx context.Context, w *workflow) []string {
	pods, err := s.pods(ctx, w)
	if err != nil {
		return nil // said before
	}
	var texts []string
	most := int64(mostLog)
	for _, p := range pods {
		raw, err := s.client.CoreV1().Pods(s.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: "wait", LimitBytes: &most}).DoRaw(ctx)
		if err != nil {
			continue // it has not started
		}
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			if line := lines.Text(); strings.Contains(line, "forbidden") || strings.Contains(line, "level=error") || strings.Contains(line, "level=fatal") {
				texts = append(texts, line)
			}
		}
	}
	return texts
}

// denied is how the API server says that an account lacks a right. In a log it is quoted.
var denied = regexp.MustCompile(`User \\?"([^"\\]+)\\?" cannot ([a-z]+) resource \\?"([^"\\]+)\\?" in API group \\?"([^"\\]*)\\?"`)

// refused names the right that somebody lacks; nil is that nothing is said of one.
func refused(texts []string) error {
	for _, t := range texts {
		m := denied.FindStringSubmatch(t)
		if m == nil {
			continue
		}
		who := m[1]
		if account, ok := strings.CutPrefix(who, "system:serviceaccount:"); ok {
			namespace, name, _ := strings.Cut(account, ":")
			who = fmt.Sprintf("ServiceAccount %s of namespace %s", name, namespace)
		}
		rule := kube.Rule{Group: m[4], Resource: m[3], Verbs: []string{m[2]}}
		return exit.Configf("%s may not %s %s; a Role bound to it must grant %s", who, m[2], m[3], rule)
	}
	return nil
}

// causes are other troubles by what is said of them, and what to do.
var causes = []struct {
	sign *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`exceeded quota`), "the namespace's ResourceQuota has no room for a step's Pod"},
	{regexp.MustCompile(`violates PodSecurity`), "the namespace's Pod Security level refuses a step's Pod"},
	{regexp.MustCompile(`(?i)serviceaccounts? \\?"[^"]+" not found`), "a ServiceAccount of the chart is missing; helm upgrade makes it again"},
	{regexp.MustCompile(`(?i)secrets? \\?"[^"]+" not found`), "a Secret is missing; helm upgrade makes those of the chart again"},
	{regexp.MustCompile(`ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|pull image`), "the image of the stages, or Argo's own, cannot be had: see stageImage and imagePullSecrets"},
	{regexp.MustCompile(`Unschedulable`), "no node has room for a step's Pod"},
}

// cause is the first trouble that the texts tell of and that something can be done about.
func cause(texts []string) error {
	if err := refused(texts); err != nil {
		return err
	}
	for _, c := range causes {
		for _, t := range texts {
			if c.sign.MatchString(t) {
				return exit.Configf("%s: %s", c.what, short(t))
			}
		}
	}
	return nil
}

func short(text string) string {
	if len(text) > mostText {
		return text[:mostText] + "…"
	}
	return text
}
