package kube

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orchard/agent/wire"
	"orchard/internal/seal"
)

const (
	identityEnv = agentPrefix + "IDENTITY"
	// lostIdentity is the name of a Pod whose agent has one that cannot be told any more. No
	// agent has its key, so the Pod is not reached, rather than plainly.
	lostIdentity = "lost"
	dialTime     = 5 * time.Second // to connect, and then for the agent to prove itself
)

// identify gives the agent of a Pod that is to be made a name of its own, and what proves it.
func identify(pod *corev1.Pod, key ed25519.PrivateKey) error {
	name := seal.Random(16)
	seed, err := wire.IdentitySeed(key, name)
	if err != nil {
		return fmt.Errorf("make Pod %s: %w", pod.Name, err)
	}
	pod.Annotations[annotIdentity] = name
	c := &pod.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: identityEnv, Value: wire.FormatSeed(seed)})
	return nil
}

// forgo takes that back, for a Pod that never runs.
func forgo(pod *corev1.Pod) {
	delete(pod.Annotations, annotIdentity)
	c := &pod.Spec.Containers[0]
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == identityEnv })
}

// identityOf is the name that the agent of a Pod proves; "" is that it proves none, for a
// controller made it that knew of no names. The container of a Pod never changes.
func identityOf(pod *corev1.Pod) string {
	if name := pod.Annotations[annotIdentity]; name != "" {
		return name
	}
	for _, c := range pod.Spec.Containers {
		if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == identityEnv }) {
			return lostIdentity
		}
	}
	return ""
}

// transport reaches agents by their sandbox's UID, which is the host of its URLs: a kept
// connection belongs to one Pod, and the Pod's address is looked up when one is made. Who
// answers there proves to be that Pod's agent before a request is sent, unless the Pod was
// made without a name to prove.
func (r *Runtime) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
			e, conn, err := r.dial(ctx, network, host)
			if err == nil && e.agent != "" {
				conn.Close()
				return nil, fmt.Errorf("%s: its agent has a name to prove, and is not reached without", e.who())
			}
			return conn, err
		},
		DialTLSContext: func(ctx context.Context, network, host string) (net.Conn, error) {
			e, conn, err := r.dial(ctx, network, host)
			if err != nil {
				return nil, err
			}
			return r.prove(ctx, e, conn)
		},
		MaxIdleConns:        2048, // each takes about 50 KiB here; a handshake costs less than a millisecond
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second, // the agent keeps them for longer
		DisableCompression:  true,
	}
}

// dial connects with whoever has the address of the Pod whose UID is the host.
func (r *Runtime) dial(ctx context.Context, network, host string) (*entry, net.Conn, error) {
	uid, _, err := net.SplitHostPort(host)
	if err != nil {
		return nil, nil, err
	}
	address := ""
	r.mu.Lock()
	e := r.entries[uid]
	if e != nil {
		address = e.address()
	}
	r.mu.Unlock()
	if address == "" {
		return nil, nil, errors.New("the sandbox has no address")
	}
	dial := r.opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}).DialContext
	}
	conn, err := dial(ctx, network, net.JoinHostPort(address, strconv.Itoa(agentPort)))
	return e, conn, err
}

// prove is a connection over which e's agent, and nobody else, has proven its name.
func (r *Runtime) prove(ctx context.Context, e *entry, conn net.Conn) (net.Conn, error) {
	config, err := wire.DialTLS(r.key, e.agent)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", e.who(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	proven := tls.Client(conn, config)
	if err := proven.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: who answers at its address does not prove to be its agent: %w", e.who(), err)
	}
	return proven, nil
}

// who is e, for people.
func (e *entry) who() string {
	if e.id == "" {
		return fmt.Sprintf("an idle Pod of pool %s (UID %s)", e.pool, e.uid)
	}
	return "sandbox " + e.id
}
