// Command envctl is sandboxes by hand; see --help.
package main

import (
	"context"
	"os"

	"k8s.io/klog/v2"

	"orchard/envctl"
	"orchard/internal/sandbox/kube/forward"
)

func main() {
	klog.SetLogger(klog.Logger{}) // what the Kubernetes client logs of a broken connection is told by its user
	p := &envctl.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Cluster: cluster}
	os.Exit(p.Run(context.Background(), os.Args))
}

// cluster finds the service in a cluster and forwards a port to it.
func cluster(ctx context.Context, o envctl.ClusterOptions) (envctl.Found, error) {
	s, err := forward.Open(ctx, forward.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, Namespace: o.Namespace})
	if err != nil {
		return envctl.Found{}, err
	}
	return envctl.Found{URL: s.URL, Key: s.Key, Close: s.Close}, nil
}
