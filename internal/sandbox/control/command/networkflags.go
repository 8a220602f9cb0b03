package command

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/sandbox/egress"
	"orchard/internal/sandbox/kube/policy"
)

// networkTexts are what the flags about networks say, to be read.
type networkTexts struct {
	closed, allowed, probes, dnsPods, dnsAddresses, proxy, proxyPods string
}

// inCluster is the API server's address as Kubernetes tells it to Pods: it always listens, and
// no sandbox may reach it.
func inCluster() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

func closedFlag(value *string) cli.Flag {
	return text("closed-networks", "CLOSED_NETWORKS", "kubernetes: `CIDRS` of the cluster that sandboxes reach only by rules that name them, besides all private networks", value)
}

func (o *options) networkFlags() []cli.Flag {
	n := &o.network
	return []cli.Flag{
		closedFlag(&n.closed),
		text("allow-egress", "ALLOW_EGRESS", "keys that are no admin's may open these private `CIDRS` to their sandboxes", &n.allowed),
		text("closed-probe", "CLOSED_PROBE", "kubernetes: nothing runs in a sandbox that can reach `ADDRESSES` (HOST:PORT by number), where something always listens; default: the API server, seen from within a cluster", &n.probes),
		yes("network-canary", "ORCHARD_NETWORK_CANARY", "kubernetes: make one small sandbox now and then to see that the cluster enforces NetworkPolicies", &o.canary),
		text("dns-pods", "SANDBOX_DNS_PODS", "kubernetes: `PODS` (NAMESPACE/KEY=VALUE) that answer names to sandboxes with an open network", &n.dnsPods),
		text("dns-addresses", "SANDBOX_DNS_ADDRESSES", "kubernetes: name servers at these `ADDRESSES`, as well", &n.dnsAddresses),
		text("egress-proxy", "ORCHARD_EGRESS_PROXY", "kubernetes: `HOST:PORT` of the egress proxy (the command egress); without it rules by name or for a time are refused", &n.proxy),
		text("egress-proxy-pods", "ORCHARD_EGRESS_PROXY_PODS", "kubernetes: the `PODS` (NAMESPACE/KEY=VALUE) that it is", &n.proxyPods),
	}
}

// completeNetwork reads them.
func (o *options) completeNetwork() error {
	var errs []error
	wrong := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	var err error
	n, set, c := o.network, &o.settings, &o.kube.Network.Cluster
	set.ClosedNetworks, err = egress.ParsePrefixes(n.closed)
	wrong("--closed-networks", err)
	set.AllowEgress, err = egress.ParsePrefixes(n.allowed)
	wrong("--allow-egress", err)
	c.Closed = append(egress.Special(), set.ClosedNetworks...)
	for _, probe := range words(n.probes) {
		if _, err := netip.ParseAddrPort(probe); err != nil {
			wrong("--closed-probe", fmt.Errorf("%q is not an address by number and a port", probe))
		}
		o.kube.Network.Probes = append(o.kube.Network.Probes, probe)
	}
	if n.dnsPods != "" {
		c.DNSPods, err = policy.ParsePeers(n.dnsPods)
		wrong("--dns-pods", err)
	}
	for _, a := range words(n.dnsAddresses) {
		addr, err := netip.ParseAddr(a)
		wrong("--dns-addresses", err)
		c.DNSAddrs = append(c.DNSAddrs, addr)
	}
	if n.proxy == "" {
		return errors.Join(errs...)
	}
	o.kube.Network.ProxyAddress = n.proxy
	if c.Proxy, err = policy.ParsePeers(n.proxyPods); err != nil {
		wrong("--egress-proxy-pods", err)
	}
	_, port, err := net.SplitHostPort(n.proxy)
	if err == nil {
		var number int
		number, err = net.LookupPort("tcp", port)
		c.ProxyPort = int32(number)
	}
	wrong("--egress-proxy", err)
	return errors.Join(errs...)
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}
