package egress

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// webPorts are those of a domain rule that names none.
var webPorts = []uint16{80, 443}

// open reports whether the rule is open at now for port.
func (r Rule) open(port uint16, now time.Time) bool {
	if r.UntilUS != 0 && now.UnixMicro() >= r.UntilUS {
		return false
	}
	ports := r.Ports
	if len(ports) == 0 && r.Domain != "" {
		ports = webPorts
	}
	return len(ports) == 0 || slices.Contains(ports, port)
}

// names reports whether the rule is for host, a lower-case name without a final dot.
func (r Rule) names(host string) bool {
	if below, ok := strings.CutPrefix(r.Domain, "*"); ok {
		return strings.HasSuffix(host, below) && len(host) > len(below)
	}
	return r.Domain != "" && r.Domain == host
}

// holdsAddr reports whether the rule is for addr.
func (r Rule) holdsAddr(addr netip.Addr, closed []netip.Prefix) bool {
	if r.CIDR == "" {
		return false
	}
	p, err := netip.ParsePrefix(r.CIDR)
	if err != nil {
		a, err := netip.ParseAddr(r.CIDR)
		return err == nil && a == addr
	}
	if !p.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(Except(p, closed), func(c netip.Prefix) bool { return c.Contains(addr) })
}

// ByName is until when host may be reached at port; zero is for ever.
func (g Grant) ByName(host string, port uint16, now time.Time) (until time.Time, ok bool) {
	return g.longest(func(r Rule) bool { return r.names(host) && r.open(port, now) })
}

// ByAddr is until when addr may be reached at port; zero is for ever.
func (g Grant) ByAddr(addr netip.Addr, port uint16, now time.Time, closed []netip.Prefix) (until time.Time, ok bool) {
	return g.longest(func(r Rule) bool { return r.holdsAddr(addr, closed) && r.open(port, now) })
}

// longest is the latest end of the rules that fit.
func (g Grant) longest(fits func(Rule) bool) (until time.Time, ok bool) {
	for _, r := range g.Rules {
		if !fits(r) {
			continue
		}
		if r.UntilUS == 0 {
			return time.Time{}, true
		}
		if u := r.Until(); !ok || u.After(until) {
			until, ok = u, true
		}
	}
	return until, ok
}
