package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// EgressRule opens one thing to a sandbox whose network is closed otherwise. Exactly one
// of CIDR and Domain is set.
type EgressRule struct {
	CIDR   string        // "203.0.113.0/24", or one address
	Domain string        // "pypi.org", or "*.pypi.org" for every name below it
	Ports  []uint16      // none means 80 and 443 for a domain, every port for a CIDR
	For    time.Duration // it closes by itself so long after it was granted; 0 is never
}

// MaxEgressRules is how many rules a sandbox can have.
const MaxEgressRules = 256

var domainRule = regexp.MustCompile(`^(\*\.)?([a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?\.)+[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate says what is wrong with r, nil for nothing.
func (r EgressRule) Validate() error {
	switch {
	case (r.CIDR == "") == (r.Domain == ""):
		return errors.New("give either cidr or domain")
	case r.Domain != "" && (len(r.Domain) > 253 || !domainRule.MatchString(r.Domain)):
		return fmt.Errorf("domain %q is not a lower-case name such as pypi.org or *.pypi.org", r.Domain)
	case r.For < 0:
		return fmt.Errorf("%v is not a time to be open", r.For)
	}
	for _, p := range r.Ports {
		if p == 0 {
			return errors.New("port 0 is no port")
		}
	}
	if r.CIDR != "" {
		_, err := r.Prefix()
		return err
	}
	return nil
}

// Prefix is the addresses of a rule with a CIDR.
func (r EgressRule) Prefix() (netip.Prefix, error) {
	text := r.CIDR
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("cidr %q is neither an address nor addresses such as 203.0.113.0/24", text)
		}
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("cidr %q is neither an address nor addresses such as 203.0.113.0/24", text)
	}
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("cidr %q has bits beyond its length: did you mean %s", text, p.Masked())
	}
	return p, nil
}
