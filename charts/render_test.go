package charts_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const namespace = "orchard"

var built sync.Mutex

// helm is the path of helm. CI builds it; elsewhere a machine without it skips.
func helm(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("helm"); err == nil {
		return path
	}
	cache := os.Getenv("ORCHARD_CLUSTER_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache", "orchard-cluster")
	}
	path := filepath.Join(cache, "bin", "helm")
	built.Lock()
	defer built.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if os.Getenv("ORCHARD_REQUIRE_ALL") != "1" {
		t.Skip("there is no helm; test/cluster/build.sh helm builds one")
	}
	if out, err := exec.CommandContext(t.Context(), "../test/cluster/build.sh", "helm").CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v\n%s", err, out)
	}
	return path
}

// withArgo tells helm, which renders without a cluster, that there is Argo in it.
const withArgo = "--api-versions=argoproj.io/v1alpha1/WorkflowTemplate"

// template is what helm makes of the chart.
func template(ctx context.Context, t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runHelm(ctx, t, append([]string{"template", "rel", "orchard", "-n", namespace}, args...)...)
}

func runHelm(ctx context.Context, t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, helm(t), args...)
	// Nobody's settings but ours.
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// kinds are the types of what the chart may make. A kind that is not here fails.
var kinds = map[string]reflect.Type{
	"Namespace": reflect.TypeFor[core.Namespace](), "Secret": reflect.TypeFor[core.Secret](), "Service": reflect.TypeFor[core.Service](),
	"ServiceAccount": reflect.TypeFor[core.ServiceAccount](), "Pod": reflect.TypeFor[core.Pod](), "Deployment": reflect.TypeFor[apps.Deployment](),
	"Role": reflect.TypeFor[rbac.Role](), "RoleBinding": reflect.TypeFor[rbac.RoleBinding](),
	"ClusterRole": reflect.TypeFor[rbac.ClusterRole](), "ClusterRoleBinding": reflect.TypeFor[rbac.ClusterRoleBinding](),
	"NetworkPolicy": reflect.TypeFor[networking.NetworkPolicy](), "PodDisruptionBudget": reflect.TypeFor[policy.PodDisruptionBudget](),
	"ConfigMap": reflect.TypeFor[core.ConfigMap](), "Job": reflect.TypeFor[batch.Job](), "WorkflowTemplate": reflect.TypeFor[WorkflowTemplate](), "CronWorkflow": reflect.TypeFor[WorkflowTemplate](),
}

// WorkflowTemplate is Argo's, or its CronWorkflow; nothing of it is read here but its name.
type WorkflowTemplate struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            map[string]any `json:"spec"`
}

// objects is what the chart makes: by kind what the controllers, their sandboxes and their check are
// made of, of each kind at most one; the rest by kind and name.
type objects map[string]any

// proxys is the key of a kind's object that is the egress proxy's.
func proxys(kind string) string { return kind + "/rel-orchard-egress" }

// render is what the chart makes where there is Argo.
func render(t *testing.T, args ...string) objects {
	t.Helper()
	out, errs, err := template(t.Context(), t, append(args, withArgo)...)
	if err != nil {
		t.Fatalf("helm template %v: %v\n%s", args, err, errs)
	}
	all := objects{}
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct {
				Name   string
				Labels map[string]string
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if head.Kind == "" {
			continue
		}
		typ, ok := kinds[head.Kind]
		key := head.Kind
		switch head.Metadata.Labels["app.kubernetes.io/component"] {
		case "controller", "sandboxes", "check":
		default:
			key += "/" + head.Metadata.Name
		}
		if !ok || all[key] != nil {
			t.Fatalf("a %s that is not expected:\n%s", head.Kind, doc)
		}
		object := reflect.New(typ).Interface()
		raw, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		// As strict as the API server: encoding/json takes readonly for readOnly.
		if strict, err := json.UnmarshalStrict(raw, object); err != nil || len(strict) > 0 {
			t.Fatalf("%v, %v in\n%s", err, strict, doc)
		}
		all[key] = object
	}
	return all
}

// get is the object of a type; a test that asks for one that is not made fails.
func get[T any](t *testing.T, all objects) T {
	t.Helper()
	return getKey[T](t, all, reflect.TypeFor[T]().Elem().Name())
}

// getProxys is the egress proxy's.
func getProxys[T any](t *testing.T, all objects) T {
	t.Helper()
	return getKey[T](t, all, proxys(reflect.TypeFor[T]().Elem().Name()))
}

func getKey[T any](t *testing.T, all objects, key string) T {
	t.Helper()
	object, ok := all[key].(T)
	if !ok {
		t.Fatalf("the chart makes no %s", key)
	}
	return object
}

// podSpecs are those of all Pods that the chart makes, by what makes them.
func podSpecs(all objects) map[string]core.PodSpec {
	specs := map[string]core.PodSpec{}
	for key, object := range all {
		switch o := object.(type) {
		case *apps.Deployment:
			specs[key] = o.Spec.Template.Spec
		case *batch.Job:
			specs[key] = o.Spec.Template.Spec
		case *core.Pod:
			specs[key] = o.Spec
		}
	}
	return specs
}
