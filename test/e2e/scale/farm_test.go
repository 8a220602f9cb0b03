package scale_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"orchard/agent/wire"
)

// exitLease is what an agent whose lease ran out ends with.
const exitLease = 44

// farm is the agents of all Pods that no kubelet runs, in one process: a Pod that is said to
// run has an agent at its address, set up by the Pod's own environment, until the Pod goes.
// The addresses are loopback ones, so one listener has them all. It is what a controller
// meets in a real Pod as far as load goes: TLS with the Pod's identity, signatures for that one
// Pod, commands as processes, first in, first out, an id only once, and a lease that ends the
// Pod when it runs out. It has no files, terminals or ports.
type farm struct {
	client kubernetes.Interface
	slots  chan struct{} // processes at a time: they share one machine, not thousands

	mu     sync.Mutex
	agents map[string]*agent // by the Pod's address

	ran, beats, expired atomic.Int64
}

func newFarm(client kubernetes.Interface) *farm {
	return &farm{client: client, slots: make(chan struct{}, 16), agents: map[string]*agent{}}
}

// follow keeps the agents in line with the Pods of namespace until ctx is done.
func (f *farm) follow(ctx context.Context, namespace string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0, informers.WithNamespace(namespace), informers.WithTransform(bare))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.saw(ctx, o.(*core.Pod)) },
		UpdateFunc: func(_, o any) { f.saw(ctx, o.(*core.Pod)) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			f.gone(o.(*core.Pod))
		},
	})
	if err != nil {
		return fmt.Errorf("watch the Pods of %s: %w", namespace, err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return fmt.Errorf("watch the Pods of %s: %w", namespace, ctx.Err())
	}
	return nil
}

// bare keeps of a Pod what an agent is made of.
func bare(o any) (any, error) {
	p, ok := o.(*core.Pod)
	if !ok {
		return o, nil
	}
	kept := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: p.Annotations}}
	for _, c := range p.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, core.Container{Name: c.Name, Env: c.Env})
	}
	kept.Status = core.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP}
	return kept, nil
}

// saw starts the agent of a Pod that runs, and ends that of one that does not any more.
func (f *farm) saw(ctx context.Context, p *core.Pod) {
	if p.Status.Phase != core.PodRunning || p.Status.PodIP == "" {
		f.gone(p)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.agents[p.Status.PodIP]; old != nil && old.uid == string(p.UID) {
		return
	}
	a, err := newAgent(p)
	if err != nil {
		return // the sandbox never becomes ready, as with an agent that ends with "bad settings"
	}
	a.farm = f
	a.end = func() { f.expire(ctx, p) }
	a.extend(a.first)
	f.agents[p.Status.PodIP] = a
}

func (f *farm) gone(p *core.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.agents[p.Status.PodIP]; a != nil && a.uid == string(p.UID) {
		a.extend(0)
		delete(f.agents, p.Status.PodIP)
	}
}

// expire ends a Pod as its agent's exit does.
func (f *farm) expire(ctx context.Context, p *core.Pod) {
	f.expired.Add(1)
	f.gone(p)
	now := meta.Now()
	patch, err := json.Marshal(map[string]any{"status": core.PodStatus{Phase: core.PodFailed, ContainerStatuses: []core.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, State: core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: exitLease, Reason: "Error", FinishedAt: now}},
	}}}})
	if err == nil { // a Pod that went at the same moment has ended as well
		_, _ = f.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, "application/merge-patch+json", patch, meta.PatchOptions{}, "status")
	}
}

// count is how many agents there are.
func (f *farm) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.agents)
}

// at is the agent at an address, nil where nobody listens.
func (f *farm) at(address net.Addr) *agent {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[host]
}

// serve answers for all agents on l until it is closed.
func (f *farm) serve(l net.Listener) error {
	server := &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 150 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	return server.Serve(doors{l, f})
}

// doors gives each connection the identity of the agent that it came to.
type doors struct {
	net.Listener
	farm *farm
}

func (d doors) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch a := d.farm.at(conn.LocalAddr()); {
		case a == nil:
			conn.Close() // nobody listens there: as near as it gets
		case a.identity != nil:
			return tls.Server(conn, a.identity), nil
		default:
			return conn, nil
		}
	}
}

// ServeHTTP implements http.Handler: the address that a request came to says whose it is.
func (f *farm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := f.at(r.Context().Value(http.LocalAddrContextKey).(net.Addr))
	if a == nil {
		panic(http.ErrAbortHandler)
	}
	a.ServeHTTP(w, r)
}

// newAgent is the agent that a Pod's environment, as the kubelet would set it, describes.
func newAgent(p *core.Pod) (*agent, error) {
	if len(p.Spec.Containers) == 0 {
		return nil, fmt.Errorf("a Pod %s without containers", p.Name)
	}
	env := map[string]string{}
	for _, v := range p.Spec.Containers[0].Env {
		env[v.Name] = strings.ReplaceAll(v.Value, "$$", "$")
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.uid" {
			env[v.Name] = string(p.UID)
		}
	}
	a := &agent{uid: env["ORCHARD_AGENT_UID"], end: func() {}, jobs: map[string]*job{}}
	keys, err := wire.ParsePublicKeys(env["ORCHARD_AGENT_KEYS"])
	if err != nil || a.uid == "" {
		return nil, fmt.Errorf("the environment of Pod %s is no agent's: uid %q: %w", p.Name, a.uid, err)
	}
	a.verifier = wire.NewVerifier(a.uid, keys, nil)
	if a.first, err = time.ParseDuration(env["ORCHARD_AGENT_LEASE"]); err != nil {
		return nil, fmt.Errorf("the environment of Pod %s: %w", p.Name, err)
	}
	if text := env["ORCHARD_AGENT_IDENTITY"]; text != "" {
		seed, err := wire.ParseSeed(text)
		if err == nil {
			a.identity, err = wire.ServeTLS(seed)
		}
		if err != nil {
			return nil, fmt.Errorf("the identity of Pod %s: %w", p.Name, err)
		}
	}
	return a, nil
}
