package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

// The canary: a sandbox that is only made to see that its network gets closed. Replicas
// share what it showed in one ConfigMap; who writes into it first has the right to try.
const (
	canaryName  = "network-canary"
	canaryTime  = 2 * time.Minute  // for one try; the network of a sandbox is open for seconds at most
	canaryFresh = 30 * time.Minute // how long "enforced" holds
	canaryAgain = 2 * time.Minute  // how long anything else does
	canaryPause = 30 * time.Second // between looks at what is known
)

// finding is what a try showed. Enforced is nil while a try goes on and after one that
// showed nothing, for want of room, say: that is no proof of either.
type finding struct {
	Enforced *bool     `json:"enforced,omitempty"`
	Trying   bool      `json:"trying,omitempty"`
	At       time.Time `json:"at"`
	Said     string    `json:"said"`
}

func (f finding) stale(now time.Time) bool {
	life := canaryAgain
	switch {
	case f.Trying:
		life += canaryTime
	case f.Enforced != nil && *f.Enforced:
		life = canaryFresh
	}
	return now.Sub(f.At) > life
}

// WatchNetwork sees again and again, until ctx is over, whether the cluster enforces
// NetworkPolicies. Where it does not, no sandbox becomes ready, as agents run nothing in
// an open network; this says so before anybody wonders.
func (r *Runtime) WatchNetwork(ctx context.Context) {
	log := zerolog.Ctx(ctx)
	if len(r.opts.Network.Probes) == 0 {
		log.Warn().Msg("nobody checks that the cluster enforces NetworkPolicies: there is no --closed-probe")
		return
	}
	for pause := rand.N(canaryPause / 6); ; pause = canaryPause/2 + rand.N(canaryPause) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		f, err := r.shared(ctx, r.tryNetwork)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn().Err(err).Msg("network canary; trying again")
		case f.Trying:
		case f.Enforced == nil:
			log.Warn().Str("said", f.Said).Msg("the network canary showed nothing; trying again")
		case !*f.Enforced:
			log.Error().Str("said", f.Said).Msg("THE CLUSTER DOES NOT ENFORCE NetworkPolicies: sandboxes will not become ready")
		}
		if f.Enforced != nil {
			r.enforced.Store(f.Enforced)
		}
	}
}

// shared is what is known, by try if this replica is the one to try.
func (r *Runtime) shared(ctx context.Context, try func(context.Context) finding) (finding, error) {
	old, last, err := r.lastFinding(ctx)
	if err != nil || last != nil && !old.stale(time.Now()) {
		return old, err
	}
	mine, err := r.publish(ctx, last, finding{Trying: true, At: time.Now(), Said: "a sandbox is tried"})
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return finding{Trying: true}, nil // another replica tries
	}
	if err != nil {
		return finding{}, err
	}
	f := try(ctx)
	if ctx.Err() != nil {
		f.At = time.Time{} // for the next replica, at once
	}
	_, err = r.publish(context.WithoutCancel(ctx), mine, f)
	return f, err
}

// tryNetwork makes a sandbox and sees whether its agent finds the network closed.
func (r *Runtime) tryNetwork(ctx context.Context) finding {
	err := r.try(ctx, canaryName+"-"+seal.Random(4), r.opts.AgentImage, canaryTime, nil)
	yes, no := true, false
	switch {
	case err == nil:
		return finding{Enforced: &yes, At: time.Now(), Said: "a sandbox found its network closed"}
	case errors.Is(err, errNetworkOpen):
		return finding{Enforced: &no, At: time.Now(), Said: err.Error()}
	}
	return finding{At: time.Now(), Said: err.Error()}
}

// try makes a sandbox, waits until it is ready, lets use have it, and removes it. An error
// is errNetworkOpen if that is what kept the sandbox from getting ready.
func (r *Runtime) try(ctx context.Context, id, image string, patience time.Duration, use func(context.Context) error) error {
	spec := sandbox.Spec{ID: id, Image: image, CPU: "100m", Memory: "64Mi", Disk: "256Mi", ReadyTimeout: 2 * patience, Lifetime: 2 * patience}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := r.Start(ctx, spec); err != nil {
		return exit.Configf("make a sandbox: %w", err)
	}
	defer func() {
		ctx, cancel := brief(context.WithoutCancel(ctx))
		defer cancel()
		_ = r.Stop(ctx, id, control.ReasonDeleted) // its lifetime is short in any case
	}()
	st, err := r.Wait(ctx, id)
	switch {
	case r.foundOpen(id):
		return exit.Configf("%w after %v: the cluster does not enforce NetworkPolicies, or a policy in namespace %s opens %v to sandboxes",
			errNetworkOpen, patience, r.opts.Namespace, r.opts.Network.Probes)
	case st.Reason == control.ReasonImagePull || st.Reason == control.ReasonStart:
		return exit.Configf("a sandbox of image %s does not start: %s: %s", image, st.Reason, st.Message)
	case err != nil || st.Phase != control.Ready:
		return exit.Gonef("a sandbox of image %s is not ready: %s %s", image, st.Reason, st.Message)
	case use == nil:
		return nil
	}
	return use(ctx)
}

// foundOpen reports whether the last that the agent of id said is that its network is open.
func (r *Runtime) foundOpen(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byID[id]
	return e != nil && e.seen.open && e.seen.ready.IsZero()
}

// lastFinding is what the ConfigMap says; nil is that there is none.
func (r *Runtime) lastFinding(ctx context.Context) (f finding, last *corev1.ConfigMap, err error) {
	last, err = r.getMap(ctx, canaryName)
	switch {
	case apierrors.IsNotFound(err):
		return finding{}, nil, nil
	case err != nil:
		return finding{}, nil, fmt.Errorf("look at ConfigMap %s: %w", canaryName, err)
	}
	_ = json.Unmarshal([]byte(last.Data["finding"]), &f) // what cannot be read is old
	return f, last, nil
}

// publish puts f into the ConfigMap as it was last seen, nil for not there. Only one of
// several replicas can.
func (r *Runtime) publish(ctx context.Context, last *corev1.ConfigMap, f finding) (*corev1.ConfigMap, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	data := map[string]string{"finding": string(raw)}
	if last == nil {
		return r.createMap(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: canaryName, Namespace: r.opts.Namespace, Labels: map[string]string{labelApp: canaryName}},
			Data:       data,
		})
	}
	next := last.DeepCopy()
	next.Data = data
	return r.updateMap(ctx, next)
}

// Collectors are metrics of the cluster.
func (r *Runtime) Collectors() []prometheus.Collector { return []prometheus.Collector{networkGauge{r}} }

// networkGauge is absent until something is known.
type networkGauge struct{ r *Runtime }

var enforcedDesc = prometheus.NewDesc("orchard_network_enforced", "Whether the cluster enforces NetworkPolicies (1) or not (0), as the last canary showed.", nil, nil)

func (networkGauge) Describe(ch chan<- *prometheus.Desc) { ch <- enforcedDesc }

func (g networkGauge) Collect(ch chan<- prometheus.Metric) {
	known := g.r.enforced.Load()
	if known == nil {
		return
	}
	value := 0.0
	if *known {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(enforcedDesc, prometheus.GaugeValue, value)
}
