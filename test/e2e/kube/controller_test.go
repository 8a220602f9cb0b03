package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient"
)

// component is the label by which the chart's parts are told apart.
const component = "app.kubernetes.io/component="

// Service is where sandboxes are made.
type Service struct {
	URL, Key string
}

// Controller is the Service that the chart made, and a key it takes. Services of the test
// cluster are reached from the machine it runs on.
func Controller(t testing.TB) Service {
	t.Helper()
	services, err := API(t).CoreV1().Services(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "controller"})
	if err != nil || len(services.Items) != 1 {
		t.Fatalf("%d Services of controllers in %s, want 1: %v", len(services.Items), namespace, err)
	}
	spec := services.Items[0].Spec
	secrets, err := API(t).CoreV1().Secrets(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "controller"})
	if err != nil || len(secrets.Items) != 1 {
		t.Fatalf("%d Secrets of controllers in %s, want 1: %v", len(secrets.Items), namespace, err)
	}
	address := net.JoinHostPort(spec.ClusterIP, strconv.Itoa(int(spec.Ports[0].Port)))
	return Service{"http://" + address, strings.TrimSpace(string(secrets.Items[0].Data["api-keys"]))}
}

// Client is a client of one address, a Service or a single replica, with the service's key.
func Client(t testing.TB, url string) *httpclient.Client {
	t.Helper()
	c, err := httpclient.New(httpclient.Options{URL: url, Key: Controller(t).Key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Replicas are the URLs of the controllers that are ready, each by itself.
func Replicas(t testing.TB) []string {
	t.Helper()
	pods, err := API(t).CoreV1().Pods(namespace).List(t.Context(), meta.ListOptions{LabelSelector: component + "controller"})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready {
			urls = append(urls, "http://"+net.JoinHostPort(p.Status.PodIP, "8000"))
		}
	}
	return urls
}

// NewSandbox makes a sandbox through the Service; it ends with the test.
func NewSandbox(t testing.TB, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.ReadyTimeout == 0 {
		spec.ReadyTimeout = patience
	}
	box, err := Client(t, Controller(t).URL).Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := box.Close(ctx); err != nil {
			t.Errorf("end sandbox %s: %v", box.ID(), err)
		}
	})
	return box
}

// A command runs in every kind of image, and its end and output come back.
func TestEveryImageRunsCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		image   string
		command sandbox.Command
		want    string
	}{
		{bashImage, sandbox.Command{Shell: `printf '%s' "${BASH_VERSION:+bash}"; exit 7`}, "bash"},
		{shImage, sandbox.Command{Shell: `printf '%s' "sh${BASH_VERSION}"; exit 7`}, "sh"},
		{bareImage, sandbox.Command{Argv: []string{"/bare", "exit", "7"}}, "bare"},
	} {
		t.Run(strings.Split(c.image, "/")[2], func(t *testing.T) {
			t.Parallel()
			box := NewSandbox(t, sandbox.Spec{Image: c.image})
			c.command.Timeout = 30 * time.Second
			got, err := box.Exec(t.Context(), c.command)
			if err != nil || got.ExitCode != 7 || string(got.Stdout) != c.want {
				t.Errorf("%v, exit %d, %q, %q; want exit 7 and %q", err, got.ExitCode, got.Stdout, got.Stderr, c.want)
			}
		})
	}
}

// A sandbox that one replica made is every other's too: commands sent to each run in it, and
// each knows the jobs of the others.
func TestAnyReplicaAnswers(t *testing.T) {
	t.Parallel()
	replicas := Replicas(t)
	if len(replicas) != 3 {
		t.Fatalf("%d replicas are ready, want 3", len(replicas))
	}
	box := NewSandbox(t, sandbox.Spec{Image: bashImage})
	type job struct {
		ID     string `json:"job_id"`
		Status string `json:"status"`
		Stdout string `json:"stdout"`
	}
	var last job
	for i, url := range replicas {
		Call(t, "POST", url+"/sandboxes/"+box.ID()+"/exec", map[string]any{"command": fmt.Sprintf("echo %d >>/tmp/log; cat /tmp/log", i), "wait": true}, &last)
	}
	if last.Stdout != "0\n1\n2\n" || last.Status != "succeeded" {
		t.Errorf("the last of three replicas answers %+v", last)
	}
	for _, url := range replicas {
		var same job
		Call(t, "GET", url+"/jobs/"+last.ID, nil, &same)
		if same != last {
			t.Errorf("%s says of the job %+v, want %+v", url, same, last)
		}
	}
}

// Call is one request with the service's key; anything but 200 fails the test.
func Call(t testing.TB, method, url string, body, into any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", Controller(t).Key)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if raw, err = io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %v: %s", method, url, answer.Status, err, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s %s: %v: %s", method, url, err, raw)
	}
}
