package kube

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube/grants"
	"orchard/internal/sandbox/kube/policy"
)

// proxyVariable is where a sandbox's proxy URL can be read back.
const proxyVariable = agentPrefix + "PROXY"

const (
	nameTime  = 20 * time.Second
	namePause = 500 * time.Millisecond
)

// hidden begins the variables that the kubelet gives every container whatever its Pod says:
// they lead to the API server, which no sandbox has any business with.
const hidden = "KUBERNETES_"

// Network is what an operator says of the network around sandboxes.
type Network struct {
	Cluster policy.Cluster // see its comments
	// ProxyAddress is HOST:PORT of the egress proxy, by number: sandboxes have no names to
	// look up. "" is that there is none, and rules by name or for a time are refused.
	ProxyAddress string
	// Probes are addresses HOST:PORT, by number, where something always listens that no
	// sandbox may reach. Nothing runs in a sandbox before they are out of reach, so in a
	// cluster that does not enforce policies nothing runs at all.
	Probes []string
}

// tell lets the programs of a sandbox whose spec has Egress know of the proxy: arguments
// of its agent, which do not touch the user's own variables. The URL with the token is
// kept in the Pod, where every replica finds it.
func (n Network) tell(c *corev1.Container, spec sandbox.Spec) {
	c.Env = append(c.Env, corev1.EnvVar{Name: agentPrefix + "HIDE", Value: hidden})
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if strings.HasPrefix(name, hidden) { // the user's own
			c.Args = append(c.Args, "--env", strings.ReplaceAll(name+"="+spec.Env[name], "$", "$$"))
		}
	}
	if probes := n.probes(spec); len(probes) > 0 {
		c.Env = append(c.Env, corev1.EnvVar{Name: agentPrefix + "CLOSED", Value: strings.Join(probes, ",")})
	}
	if spec.Egress == nil || n.ProxyAddress == "" {
		return
	}
	env := grants.Env(n.ProxyAddress, spec.ID, grants.NewToken())
	c.Env = append(c.Env, corev1.EnvVar{Name: proxyVariable, Value: env["https_proxy"]})
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if _, own := spec.Env[name]; !own {
			c.Args = append(c.Args, "--env", name+"="+env[name])
		}
	}
}

// probes are those that must be out of reach of a sandbox: not what a rule opens.
func (n Network) probes(spec sandbox.Spec) []string {
	g := egress.Grant{Rules: egress.Rules(spec.Egress, time.Now())}
	return slices.DeleteFunc(slices.Clone(n.Probes), func(probe string) bool {
		addr, err := netip.ParseAddrPort(probe)
		if err != nil {
			return true
		}
		_, listed := g.ByAddr(addr.Addr(), addr.Port(), time.Now(), n.Cluster.Closed)
		closed := !spec.OpenNetwork || slices.ContainsFunc(n.Cluster.Closed, func(c netip.Prefix) bool { return c.Contains(addr.Addr()) })
		return listed || !closed
	})
}

// check is why rules cannot be kept to here.
func (n Network) check(spec sandbox.Spec, rules []sandbox.EgressRule) error {
	for _, r := range rules {
		if n.ProxyAddress == "" && (r.Domain != "" || r.For > 0) {
			return refuse(spec, "egress: rules by name or for a time go through the egress proxy, and this service has none (--egress-proxy)")
		}
	}
	return nil
}

// granted is what is open to a sandbox by the grant at its Pod.
func (r *Runtime) granted(pod *corev1.Pod) (egress.Grant, bool) {
	sealed := pod.Annotations[grants.Annotation]
	if sealed == "" {
		return egress.Grant{}, false
	}
	g, err := egress.Open(sealed, []ed25519.PublicKey{r.key.Public().(ed25519.PublicKey)})
	return g, err == nil && g.UID == string(pod.UID)
}

// networkOf is what is open to a sandbox, for its State.
func (r *Runtime) networkOf(pod *corev1.Pod) control.Network {
	g, _ := r.granted(pod)
	_, told := proxyURL(pod)
	return control.Network{Generation: g.Generation, Rules: g.Rules, Proxy: told}
}

// proxyURL is the one that a Pod's programs were told of.
func proxyURL(pod *corev1.Pod) (string, bool) {
	for _, c := range pod.Spec.Containers {
		for _, v := range c.Env {
			if c.Name == containerName && v.Name == proxyVariable {
				return v.Value, true
			}
		}
	}
	return "", false
}

// SetEgress implements control.Networker.
func (r *Runtime) SetEgress(ctx context.Context, id string, rules []sandbox.EgressRule) (control.State, error) {
	e, _, err := r.find(ctx, id)
	if err != nil {
		return control.State{}, err
	}
	if e == nil || r.read(e).Phase == control.Ended {
		return control.State{}, fmt.Errorf("%s: %w", id, control.ErrNotFound)
	}
	if err := r.opts.Network.check(e.spec, rules); err != nil {
		return control.State{}, err
	}
	if err := r.grant(ctx, e, rules); err != nil {
		return control.State{}, err
	}
	if err := r.open(ctx, e); err != nil {
		return control.State{}, err
	}
	return r.read(e), nil
}

// grant seals rules, from now on, at the Pod of e. Of two at the same time both hold, one
// after the other.
func (r *Runtime) grant(ctx context.Context, e *entry, rules []sandbox.EgressRule) error {
	for {
		pod, err := r.fetch(ctx, e.id)
		switch {
		case apierrors.IsNotFound(err), err == nil && string(pod.UID) != e.uid:
			return fmt.Errorf("%s: %w", e.id, control.ErrNotFound)
		case err != nil:
			return fmt.Errorf("look at the Pod of sandbox %s: %w", e.id, err)
		}
		old, _ := r.granted(pod)
		url, _ := proxyURL(pod)
		token, _ := grants.Token(url)
		g := egress.Grant{Sandbox: e.id, UID: e.uid, Generation: old.Generation + 1, TokenSum: egress.TokenSum(token), Rules: egress.Rules(rules, time.Now())}
		if pod.Annotations[grants.Annotation], err = egress.Seal(g, r.key); err != nil {
			return err
		}
		made, err := r.update(ctx, pod)
		switch {
		case err == nil:
			r.observe(made, false)
			return nil
		case !apierrors.IsConflict(err): // it is; somebody else was faster
			return fmt.Errorf("grant egress to sandbox %s: %w", e.id, err)
		}
	}
}

func (r *Runtime) update(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().Pods(r.opts.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
}

// numbered is an address HOST:PORT with the host by number. Names of an install that has
// just begun are asked for until they are known.
func numbered(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%q is not HOST:PORT", address)
	}
	ctx, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	for {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err == nil && len(addrs) > 0 {
			return net.JoinHostPort(addrs[0].Unmap().String(), port), nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(err, ctx.Err())
		case <-time.After(namePause):
		}
	}
}
