package rules

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Host is the name of the machine that an address goes to: lower-case, as DNS has it
// (xn-- for what is not ASCII), without user, port and the dot of the root. The scheme may
// be missing.
func Host(address string) (string, error) {
	s := strings.TrimSpace(address)
	if !strings.Contains(s, "://") {
		s = "//" + strings.TrimPrefix(s, "//")
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%q is no address of a website", address)
	}
	host := strings.TrimRight(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	ascii, err := hosts.ToASCII(host)
	if err != nil || ascii == "" {
		return "", fmt.Errorf("%q is no address of a website", address)
	}
	return ascii, nil
}

// hosts maps names as a browser does: case, width and the dots of other scripts do not
// matter, and an underscore is allowed.
var hosts = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))

// Site is the registrable domain of an address: what one owner has, by the public suffix
// list, as in example.co.uk for https://www.shop.example.co.uk/x. A host that has none,
// such as an IP address, localhost or a suffix itself, is its own.
func Site(address string) (string, error) {
	host, err := Host(address)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site, nil
	}
	return host, nil
}
