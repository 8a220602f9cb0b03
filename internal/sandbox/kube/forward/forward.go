// Package forward finds the sandbox service in a cluster, as its chart labels it, and
// makes a port of this machine lead to it, as kubectl port-forward does.
//
// It needs to list Services and Pods and to forward to a Pod, no more; a Secret that may
// not be read is no error. When the Pod behind the port ends, the same port leads to
// another one.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Options say where to look; "" is what kubectl would take.
type Options struct {
	Kubeconfig string // a file; "" is $KUBECONFIG or ~/.kube/config
	Context    string
	Namespace  string // "" is the context's, then all
}

// Service is a service that was found.
type Service struct {
	URL string // http://127.0.0.1:PORT, until Close
	Key string // an API key, "" when none may be read

	Namespace, Name string

	forward *forwarder
}

// Close ends the forwarding.
func (s *Service) Close() {
	s.forward.stop()
	s.forward.work.Wait()
}

// Open finds the service and leads a free port of this machine to it. ctx bounds the
// finding only.
func Open(ctx context.Context, o Options) (*Service, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	to, err := config.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(to)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	home, _, err := config.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	service, err := find(ctx, client, o.Namespace, home)
	if err != nil {
		return nil, err
	}
	f := &forwarder{config: to, client: client, service: service, done: make(chan struct{})}
	first := make(chan error, 1)
	f.work.Go(func() { f.run(first) })
	select {
	case err = <-first:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		f.stop()
		f.work.Wait()
		return nil, err
	}
	return &Service{
		URL: fmt.Sprintf("http://127.0.0.1:%d", f.port), Key: key(ctx, client, service),
		Namespace: service.Namespace, Name: service.Name, forward: f,
	}, nil
}

// forwarder keeps a port of this machine leading to some ready Pod of a service.
type forwarder struct {
	config  *rest.Config
	client  kubernetes.Interface
	service *corev1.Service
	port    uint16 // 0 until first

	work sync.WaitGroup
	once sync.Once
	done chan struct{}
}

func (f *forwarder) stop() { f.once.Do(func() { close(f.done) }) }

// run forwards to one Pod after the other until stop. first is told how the first went;
// when that did not work it is the last.
func (f *forwarder) run(first chan<- error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, f.stop)()
	go func() {
		<-f.done
		cancel()
	}()
	again := backoff.NewExponentialBackOff()
	again.InitialInterval, again.MaxInterval = 200*time.Millisecond, 5*time.Second
	for {
		began := time.Now()
		err := f.lead(ctx, first)
		if f.port == 0 {
			first <- err
			return
		}
		if time.Since(began) > time.Minute {
			again.Reset()
		}
		select {
		case <-f.done:
			return
		case <-time.After(again.NextBackOff()):
		}
	}
}

// lead forwards to one Pod until that ends or stop.
func (f *forwarder) lead(ctx context.Context, first chan<- error) error {
	pod, port, err := target(ctx, f.client, f.service)
	if err != nil {
		return err
	}
	dialer, err := f.dialer(pod)
	if err != nil {
		return err
	}
	ready, gone := make(chan struct{}), make(chan error, 1)
	forward, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("%d:%d", f.port, port)}, f.done, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	f.work.Go(func() { gone <- forward.ForwardPorts() })
	select {
	case err := <-gone:
		if err == nil {
			err = errors.New("it ended at once")
		}
		return fmt.Errorf("forward to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case <-ready:
	}
	if f.port == 0 {
		ports, err := forward.GetPorts()
		if err != nil {
			return err
		}
		f.port = ports[0].Local
		first <- nil
	}
	return <-gone
}

// dialer speaks to the API server as kubectl does: over a WebSocket, or SPDY where that
// is not known or a proxy does not let it through.
func (f *forwarder) dialer(pod *corev1.Pod) (httpstream.Dialer, error) {
	at := f.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	socket, err := portforward.NewSPDYOverWebsocketDialer(at, f.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(socket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// firstKey is the first of keys that are separated by commas, spaces or newlines, "" for a
// list with hashes.
func firstKey(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) })
	if len(words) == 0 || strings.ContainsAny(words[0], "{[:#-") && strings.Contains(text, "sha256") {
		return ""
	}
	return words[0]
}
