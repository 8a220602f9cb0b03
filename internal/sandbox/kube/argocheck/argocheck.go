// Package argocheck sees whether Argo Workflows runs Orchard's stages in a namespace: it
// submits one Workflow with one short step, follows it, deletes it, and says what is
// missing when it does not end well. It is for `helm test`; it runs no stage, and
// pipelines are none of its business.
package argocheck

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"orchard/internal/exit"
	"orchard/internal/sandbox/kube"
)

// Options are what a check is told.
type Options struct {
	Namespace string        // of the pipelines
	Image     string        // of the stages
	Wait      time.Duration // how long the Workflow has
}

// Validate says what is missing, by the names of the flags.
func (o Options) Validate() error {
	switch {
	case o.Namespace == "":
		return exit.Configf("--workflow-namespace: missing")
	case o.Image == "":
		return exit.Configf("--stage-image: missing")
	case o.Wait <= 0:
		return exit.Configf("--wait: %v must be more than nothing", o.Wait)
	}
	return nil
}

// Rules are what the account that checks may do in the namespace of the pipelines.
var Rules = []kube.Rule{
	{Group: "argoproj.io", Resource: "workflows", Verbs: []string{"create", "delete", "get"}, Why: "to run one, and to remove it"},
	{Resource: "pods", Verbs: []string{"list"}, Why: "why its Pod does not start"},
	{Resource: "pods/log", Verbs: []string{"get"}, Why: "what Argo's container in it says"},
	{Resource: "events", Verbs: []string{"list"}, Why: "what its Pod waits for"},
}

// brief bounds one question to the cluster, and those at the end together.
const brief = 15 * time.Second

//go:embed workflow.yaml
var manifest []byte

// workflow is what is read of one.
type workflow struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase, Message string
		Nodes          map[string]struct{ Type, Phase, Message string }
	}
}

// ended reports whether nothing more will happen.
func (w *workflow) ended() bool {
	return w.Status.Phase == "Succeeded" || w.Status.Phase == "Failed" || w.Status.Phase == "Error"
}

// site is a namespace in which a Workflow is tried.
type site struct {
	Options
	client kubernetes.Interface
}

// Try runs a Workflow and returns a line about it. Errors have exit code exit.Config when
// something must be mended, and exit.Gone when the cluster does not answer.
func Try(ctx context.Context, client kubernetes.Interface, o Options) (string, error) {
	if err := o.Validate(); err != nil {
		return "", err
	}
	s := &site{o, client}
	begun := time.Now()
	w, err := s.submit(ctx)
	if err != nil {
		return "", err
	}
	name := w.Metadata.Name
	defer s.remove(context.WithoutCancel(ctx), name)
	var unread error
	_ = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, o.Wait, true, func(context.Context) (bool, error) {
		// The last look is to say what it sees, not that the time is up.
		ctx, stop := context.WithTimeout(ctx, brief)
		defer stop()
		now, err := s.get(ctx, name)
		if unread = err; err != nil {
			return apierrors.IsForbidden(err) || apierrors.IsNotFound(err), nil
		}
		w = now
		// What is refused for want of a right is refused again: no need to wait.
		return w.ended() || refused(s.seen(ctx, w)) != nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("follow Workflow %s: %w", name, ctx.Err())
	case apierrors.IsForbidden(unread) || apierrors.IsNotFound(unread):
		return "", exit.Configf("follow Workflow %s: %w", name, unread)
	case unread != nil:
		return "", exit.Gonef("follow Workflow %s: %w", name, unread)
	case w.Status.Phase == "Succeeded":
		return fmt.Sprintf("Argo ran a Workflow in %v", time.Since(begun).Round(100*time.Millisecond)), nil
	}
	return "", s.why(ctx, w)
}

// request is one to Workflows, by path below those of the namespace.
func (s *site) request(verb string, name ...string) *rest.Request {
	return s.client.CoreV1().RESTClient().Verb(verb).
		AbsPath(append([]string{"/apis/argoproj.io/v1alpha1/namespaces", s.Namespace, "workflows"}, name...)...).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
}

func (s *site) submit(ctx context.Context) (*workflow, error) {
	var body map[string]any
	if err := yaml.Unmarshal(manifest, &body); err != nil {
		return nil, fmt.Errorf("workflow.yaml: %w", err)
	}
	body["spec"].(map[string]any)["arguments"] = map[string]any{"parameters": []any{map[string]any{"name": "image", "value": s.Image}}}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("workflow.yaml: %w", err)
	}
	w, err := parse(s.request("POST").Body(raw).Do(ctx))
	switch {
	case err == nil:
		return w, nil
	case apierrors.IsNotFound(err):
		return nil, exit.Configf("the cluster knows no Workflows: install Argo Workflows, then run helm upgrade for this release: %w", err)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, exit.Configf("submit a Workflow in namespace %s: %w", s.Namespace, err)
	}
	return nil, exit.Gonef("submit a Workflow in namespace %s: %w", s.Namespace, err)
}

func (s *site) get(ctx context.Context, name string) (*workflow, error) {
	return parse(s.request("GET", name).Do(ctx))
}

// remove deletes the Workflow, and the cluster its Pods.
func (s *site) remove(ctx context.Context, name string) {
	ctx, stop := context.WithTimeout(ctx, brief)
	defer stop()
	// Argo deletes it by itself should this not succeed.
	_ = s.request("DELETE", name).Body([]byte(`{"propagationPolicy":"Background"}`)).Do(ctx).Error()
}

func parse(answer rest.Result) (*workflow, error) {
	// Raw alone would lose what the API server says.
	if err := answer.Error(); err != nil {
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	w := &workflow{}
	if err := json.Unmarshal(raw, w); err != nil {
		return nil, fmt.Errorf("read a Workflow: %w", err)
	}
	return w, nil
}
