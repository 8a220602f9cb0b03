package kube_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// PodExec runs a command in a Pod through the kubelet, without Orchard: how a test looks at
// a sandbox from outside. An error is that it did not run.
func PodExec(ctx context.Context, t testing.TB, ns, name string, command ...string) (code int, output string, err error) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	url := API(t).CoreV1().RESTClient().Post().Resource("pods").Namespace(ns).Name(name).SubResource("exec").
		VersionedParams(&core.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer // each is written by a goroutine of its own
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
	output = out.String() + errs.String()
	var ended exec.CodeExitError
	if errors.As(err, &ended) {
		return ended.Code, output, nil
	}
	return 0, output, err
}
