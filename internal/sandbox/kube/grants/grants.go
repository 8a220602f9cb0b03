// Package grants keeps egress grants at the Pods that they are for: a sealed grant is an
// annotation, the sandbox's proxy URL with its token is in the Pod's environment. The
// egress proxy watches both; it needs no controller, and goes on with what it knows
// when the API server is away.
package grants

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/rs/zerolog"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"orchard/internal/logx"
	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube/policy"
	"orchard/internal/seal"
)

// Annotation of a Pod holds its sealed egress.Grant.
const Annotation = "orchard.dev/egress"

// localNames never go through the proxy.
const localNames = "localhost,127.0.0.1,::1"

// variables are the names that programs look for; curl reads only the lower-case http_proxy.
var variables = []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}

// NewToken is a sandbox's password at the proxy.
func NewToken() string { return seal.Random(16) }

// Env is the variables that lead programs of sandbox id to the proxy at address.
func Env(address, id, token string) map[string]string {
	u := url.URL{Scheme: "http", User: url.UserPassword(id, token), Host: address}
	env := map[string]string{"no_proxy": localNames, "NO_PROXY": localNames}
	for _, name := range variables {
		env[name] = u.String()
	}
	return env
}

// Token is the password in a proxy URL that Env made.
func Token(proxyURL string) (string, bool) {
	u, err := url.Parse(proxyURL)
	if err != nil || u.User == nil {
		return "", false
	}
	return u.User.Password()
}

// Watch keeps store as the Pods of a namespace say until ctx is over. It calls synced
// once everything there at the start is known.
func Watch(ctx context.Context, client kubernetes.Interface, namespace string, keys []ed25519.PublicKey, store *egress.Store, synced func()) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = policy.App + "=" + policy.AppSandbox }))
	pods := factory.Core().V1().Pods().Informer()
	w := &watcher{keys: keys, store: store, log: zerolog.Ctx(ctx)}
	if err := pods.SetTransform(slim); err != nil {
		return fmt.Errorf("watch grants: %w", err)
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.see(nil, o.(*core.Pod)) },
		UpdateFunc: func(old, now any) {
			w.see(old.(*core.Pod), now.(*core.Pod))
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			w.drop(o.(*core.Pod))
		},
	}); err != nil {
		return fmt.Errorf("watch grants: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return ctx.Err()
	}
	synced()
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// slim is a Pod without what grants do not need, most of all its environment.
func slim(o any) (any, error) {
	pod, ok := o.(*core.Pod)
	if !ok {
		return o, nil
	}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp, Annotations: map[string]string{Annotation: pod.Annotations[Annotation]}},
		Status: core.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs},
	}, nil
}

type watcher struct {
	keys  []ed25519.PublicKey
	store *egress.Store
	log   *zerolog.Logger
}

// see makes the store say what a Pod has now. One that has ended, or is another one of
// the same name, has nothing.
func (w *watcher) see(old, pod *core.Pod) {
	if old != nil && old.UID != pod.UID {
		w.drop(old)
	}
	sealed := pod.Annotations[Annotation]
	if sealed == "" || pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed || pod.DeletionTimestamp != nil {
		w.drop(pod)
		return
	}
	g, err := egress.Open(sealed, w.keys)
	if err == nil && g.UID != string(pod.UID) {
		err = fmt.Errorf("the grant is for another Pod, %s", g.UID)
	}
	if err != nil {
		w.log.Error().Err(err).Str(logx.Sandbox, pod.Name).Msg("a grant that no controller gave: nothing is open")
		w.drop(pod)
		return
	}
	for _, addr := range addresses(pod) {
		w.store.Set(addr, g)
	}
}

func (w *watcher) drop(pod *core.Pod) {
	for _, addr := range addresses(pod) {
		w.store.Drop(addr, string(pod.UID))
	}
}

func addresses(pod *core.Pod) []netip.Addr {
	var all []netip.Addr
	for _, ip := range append(pod.Status.PodIPs, core.PodIP{IP: pod.Status.PodIP}) {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, addr)
		}
	}
	return all
}
