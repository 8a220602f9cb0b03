package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
)

// kubeLists are the flags of the Kubernetes runtime that may be given several times.
type kubeLists struct {
	pullSecrets, capabilities cli.StringSlice
}

// fromJSON is a flag whose text is a JSON value.
type fromJSON struct{ value any }

// Set implements cli.Generic.
func (f fromJSON) Set(text string) error {
	if err := json.Unmarshal([]byte(text), f.value); err != nil {
		return fmt.Errorf("%q is not such JSON: %w", text, err)
	}
	return nil
}

// String implements cli.Generic.
func (f fromJSON) String() string {
	if text, err := json.Marshal(f.value); err == nil && string(text) != "null" {
		return string(text)
	}
	return ""
}

func structured(name, env, usage string, value any) cli.Flag {
	return &cli.GenericFlag{Name: name, EnvVars: []string{env}, Usage: "kubernetes: " + usage, Value: fromJSON{value}}
}

func (o *options) kubeFlags() []cli.Flag {
	k := &o.kube
	return []cli.Flag{
		text("kubeconfig", "KUBECONFIG", "kubernetes: how to reach the cluster, from `FILE`; default: from within it", &k.Kubeconfig),
		text("agent-image", "ORCHARD_AGENT_IMAGE", "kubernetes: `IMAGE` that puts the agent into every sandbox", &k.AgentImage),
		text("signing-key-file", "ORCHARD_SIGNING_KEY_FILE", "kubernetes: the key of all replicas, in `FILE`; see the command keygen", &k.KeyFile),
		structured("node-selector", "SANDBOX_NODE_SELECTOR", "labels of the machines that take sandboxes, as `JSON`: {\"LABEL\":\"VALUE\"}", &k.NodeSelector),
		structured("tolerations", "SANDBOX_TOLERATIONS", "taints that do not keep sandboxes away, as `JSON`: [{\"key\":…,\"operator\":…,\"value\":…,\"effect\":…}]", &k.Tolerations),
		structured("spot-node-selector", "SANDBOX_SPOT_NODE_SELECTOR", "labels of the machines that take sandboxes with spot, as `JSON`", &k.SpotSelector),
		structured("spot-tolerations", "SANDBOX_SPOT_TOLERATIONS", "taints that do not keep sandboxes with spot away, as `JSON`", &k.SpotTolerations),
		text("runtime-class", "SANDBOX_RUNTIME_CLASS", "kubernetes: `NAME` of the runtime class of a sandbox that names none", &k.RuntimeClass),
		text("gpu-resource", "SANDBOX_GPU_RESOURCE", "kubernetes: `NAME` of the resource that a GPU is", &k.GPUResource),
		text("disk-limit", "SANDBOX_DISK_LIMIT", "kubernetes: `QUANTITY` that a sandbox that names no disk may write", &k.DiskLimit),
		&cli.StringSliceFlag{Name: "image-pull-secret", EnvVars: []string{"SANDBOX_IMAGE_PULL_SECRETS"}, Usage: "kubernetes: every sandbox's image may be had with the Secret `NAME`; repeatable", Destination: &o.lists.pullSecrets},
		&cli.StringSliceFlag{Name: "sandbox-capability", EnvVars: []string{"SANDBOX_CAPABILITIES"}, Usage: "kubernetes: give every sandbox the capability `NAME`, such as CHOWN, which package managers need; repeatable", Destination: &o.lists.capabilities},
		seconds("image-pull-patience", "IMAGE_PULL_PATIENCE_SECONDS", "kubernetes: give up an image that cannot be had for `TIME`", &k.PullPatience),
		&cli.Float64Flag{Name: "kube-qps", EnvVars: []string{"KUBE_QPS"}, Usage: "kubernetes: at most `NUMBER` requests a second to the cluster", Value: k.QPS, Destination: &k.QPS},
		number("kube-burst", "KUBE_BURST", "kubernetes: at most `NUMBER` of them at once", &k.Burst),
	}
}

// completeKube checks what the Kubernetes runtime needs.
func (o *options) completeKube() error {
	o.kube.Namespace = o.settings.Namespace
	o.kube.PullSecrets, o.kube.Capabilities = o.lists.pullSecrets.Value(), o.lists.capabilities.Value()
	return exit.With(exit.Config, errors.Join(o.completeNetwork(), o.kube.Validate()))
}
