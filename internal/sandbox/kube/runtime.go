package kube

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"orchard/internal/exit"
	"orchard/internal/sandbox/control"
)

// callTime bounds one request to the cluster.
const callTime = 15 * time.Second

// Runtime makes sandboxes in a cluster. Safe for concurrent use.
type Runtime struct {
	opts   Options
	client kubernetes.Interface
	key    ed25519.PrivateKey
	http   *http.Transport
	nodes  corelisters.NodeLister // nil where they may not be listed
	slots  chan struct{}          // bounds what is buried in the background at a time

	ctx    context.Context // of everything in the background
	cancel context.CancelFunc
	wg     sync.WaitGroup

	enforced atomic.Pointer[bool] // what the network canary showed last; nil is nothing yet

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry                // Pods by UID
	byID    map[string]*entry                // the newest of each sandbox id
	graves  map[string]map[string]*tombstone // by sandbox id and UID
	pools   map[string]*pool                 // by name
	warm    map[string]*entry                // those of entries that are idle
	tickets map[string]*corev1.Pod           // by UID
	bodies  map[string]*corev1.Pod           // by their ticket's UID, while that is not known
	keep    chan struct{}                    // wakes the keeper of pools

	prepulls map[string]*prepull // by id
	pulls    chan struct{}       // wakes the prepuller
	books    map[string]*book    // by owner
}

var (
	_ control.Runtime   = (*Runtime)(nil)
	_ control.Resourcer = (*Runtime)(nil)
	_ control.Eventer   = (*Runtime)(nil)
	_ control.Networker = (*Runtime)(nil)
	_ control.Pooler    = (*Runtime)(nil)
	_ control.Prepuller = (*Runtime)(nil)
	_ control.Booker    = (*Runtime)(nil)
)

// quiet keeps client-go from writing lines of its own; what matters comes back as errors.
var quiet = sync.OnceFunc(func() {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // with an output alone, errors go to stderr as well
})

// New connects to the cluster, checks that everything is as it must be, and knows all
// sandboxes that are there when it returns. Its background work logs through ctx's logger.
// Errors have exit code exit.Config or, when the cluster does not answer, exit.Gone.
func New(ctx context.Context, opts Options) (*Runtime, error) {
	c, err := connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	nodes, err := c.check(ctx)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		opts: *c.opts, client: c.client, key: c.key, slots: make(chan struct{}, 16),
		entries: map[string]*entry{}, byID: map[string]*entry{}, graves: map[string]map[string]*tombstone{},
		pools: map[string]*pool{}, warm: map[string]*entry{}, tickets: map[string]*corev1.Pod{}, bodies: map[string]*corev1.Pod{},
		keep: make(chan struct{}, 1), prepulls: map[string]*prepull{}, pulls: make(chan struct{}, 1), books: map[string]*book{},
	}
	r.http = r.transport()
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.watch(ctx, nodes); err != nil {
		r.Close()
		return nil, err
	}
	r.wg.Go(r.sweep)
	r.wg.Go(r.keeper)
	r.wg.Go(r.prepuller)
	return r, nil
}

// Close ends what this replica does. The sandboxes live on.
func (r *Runtime) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.http.CloseIdleConnections()
}

// goes runs f in the background unless the runtime is closed.
func (r *Runtime) goes(f func()) {
	if !r.closed { // the caller holds mu
		r.wg.Go(f)
	}
}

// watch follows the Pods and tombstones, and nodes if they may be seen.
func (r *Runtime) watch(ctx context.Context, nodes bool) error {
	ours := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithNamespace(r.opts.Namespace),
		informers.WithTransform(slim), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = fmt.Sprintf("%s in (%s)", labelApp, strings.Join([]string{appSandbox, appTombstone, appPool, appTicket, appPrepull}, ","))
		}))
	pods, graves := ours.Core().V1().Pods().Informer(), ours.Core().V1().ConfigMaps().Informer()
	factories := []informers.SharedInformerFactory{ours}
	shared := []cache.SharedIndexInformer{pods, graves}
	if nodes {
		all := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithTransform(slim))
		r.nodes = all.Core().V1().Nodes().Lister()
		factories, shared = append(factories, all), append(shared, all.Core().V1().Nodes().Informer())
	}
	log := zerolog.Ctx(ctx)
	synced := make([]cache.InformerSynced, 0, len(shared)+2)
	for _, informer := range shared {
		err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			log.Warn().Err(err).Msg("the cluster cannot be watched; trying again")
		})
		if err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		pods: {
			AddFunc:    func(o any) { r.observe(o.(*corev1.Pod), true) },
			UpdateFunc: func(_, o any) { r.observe(o.(*corev1.Pod), true) },
			DeleteFunc: r.deleted,
		},
		graves: {
			AddFunc:    func(o any) { r.observeMap(o.(*corev1.ConfigMap)) },
			UpdateFunc: func(_, o any) { r.observeMap(o.(*corev1.ConfigMap)) },
			DeleteFunc: r.forget,
		},
	} {
		handled, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
		synced = append(synced, handled.HasSynced)
	}
	for _, f := range factories {
		f.Start(r.ctx.Done())
		r.wg.Go(func() {
			<-r.ctx.Done()
			f.Shutdown()
		})
	}
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(patience.Done(), synced...) {
		return exit.Gonef("the cluster does not list the sandboxes of namespace %s", r.opts.Namespace)
	}
	return nil
}

// slim drops what is not needed, for there may be ten thousand of them.
func slim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Status.Images = nil
	case *corev1.Pod:
		if poolOf(o) != "" {
			break // an idle one is written back as it is here
		}
		o.Spec.InitContainers, o.Spec.Volumes, o.Spec.Tolerations = nil, nil, nil
		for i := range o.Spec.Containers {
			c := &o.Spec.Containers[i]
			c.VolumeMounts, c.Ports, c.SecurityContext, c.ReadinessProbe = nil, nil, nil, nil
		}
	}
	return o, nil
}

// brief is ctx for one request to the cluster.
func brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTime)
}
