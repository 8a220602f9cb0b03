package kube

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/sandbox"
)

// Options are an operator's choices. Start from Defaults; the names in comments are the
// flags that errors name.
type Options struct {
	Kubeconfig string // --kubeconfig: how to reach the cluster; "" is from within it
	Namespace  string // --namespace: where the sandboxes are
	AgentImage string // --agent-image: has orchard-agent as its entry point
	KeyFile    string // --signing-key-file: the controllers' private key, one for all replicas

	NodeSelector map[string]string    // --node-selector: every sandbox's, besides its own
	Tolerations  []sandbox.Toleration // --tolerations: every sandbox's, besides its own
	PullSecrets  []string             // --image-pull-secret: every sandbox's, besides its own
	RuntimeClass string               // --runtime-class of a sandbox that names none
	GPUResource  string               // --gpu-resource: what a GPU is called
	// SpotSelector and SpotTolerations are for sandboxes that may run on machines that are
	// taken away (--spot-node-selector, --spot-tolerations).
	SpotSelector    map[string]string
	SpotTolerations []sandbox.Toleration
	// Capabilities are given to every sandbox (--sandbox-capability); none by default.
	Capabilities []string
	DiskLimit    string // --disk-limit of a sandbox that names none

	Network Network

	PullPatience time.Duration // --image-pull-patience: how long an image may be not to be had
	QPS          float64       // --kube-qps: requests a second to the cluster
	Burst        int           // --kube-burst

	// Client, Key and Dial are for tests: used instead of Kubeconfig, KeyFile and the network
	// to reach agents.
	Client kubernetes.Interface
	Key    ed25519.PrivateKey
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Defaults are the operator's choices that nobody made.
func Defaults() Options {
	return Options{
		Namespace: "sandbox-pods", GPUResource: "nvidia.com/gpu", DiskLimit: "20Gi",
		PullPatience: 15 * time.Second, QPS: 200, Burst: 400,
	}
}

// grantable are the capabilities that an operator may give: those that package managers
// and daemons need within their own container.
var grantable = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETUID", "SYS_CHROOT"}

// Validate names everything that is wrong, by flag.
func (o *Options) Validate() error {
	var errs []error
	wrong := func(flag, format string, a ...any) { errs = append(errs, fmt.Errorf(flag+": "+format, a...)) }
	if o.Namespace == "" {
		wrong("--namespace", "missing: where the sandboxes are")
	}
	if o.AgentImage == "" {
		wrong("--agent-image", "missing: the image that has orchard-agent (ORCHARD_AGENT_IMAGE)")
	}
	if o.KeyFile == "" && o.Key == nil {
		wrong("--signing-key-file", "missing: a file with the controllers' key, which orchard-controller keygen makes (ORCHARD_SIGNING_KEY_FILE)")
	}
	if q, err := resource.ParseQuantity(o.DiskLimit); err != nil || q.Sign() <= 0 {
		wrong("--disk-limit", "%q is not a quantity such as 20Gi", o.DiskLimit)
	}
	if o.PullPatience < 0 {
		wrong("--image-pull-patience", "%v is below zero", o.PullPatience)
	}
	if o.QPS <= 0 || o.Burst <= 0 {
		wrong("--kube-qps, --kube-burst", "%v and %d must be above zero", o.QPS, o.Burst)
	}
	for _, c := range o.Capabilities {
		if !slices.Contains(grantable, c) {
			wrong("--sandbox-capability", "%q is none of %s", c, strings.Join(grantable, ", "))
		}
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// key is the controllers' private key.
func (o *Options) key() (ed25519.PrivateKey, error) {
	if o.Key != nil {
		return o.Key, nil
	}
	raw, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return nil, exit.Configf("--signing-key-file: %w", err)
	}
	key, err := wire.ParsePrivateKey(string(raw))
	if err != nil {
		return nil, exit.Configf("--signing-key-file: %s: %w", o.KeyFile, err)
	}
	return key, nil
}

// connect is a client of the cluster. It asks nothing yet.
func (o *Options) connect() (kubernetes.Interface, error) {
	if o.Client != nil {
		return o.Client, nil
	}
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	}
	if err != nil {
		return nil, exit.Configf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = float32(o.QPS), o.Burst, "orchard-controller"
	// Shorter than JSON, for ten thousand Pods and their changes.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, exit.Configf("--kubeconfig: %w", err)
	}
	return client, nil
}
