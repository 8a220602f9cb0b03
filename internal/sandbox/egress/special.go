package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// Special are the addresses that "everything" never means: this machine, private
// networks, link-local ones with a cloud's metadata among them, and what no host has
// (IANA's special-purpose registries, RFC 6890).
func Special() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		"::/128", "::1/128", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// ParsePrefixes reads a list of CIDRs separated by commas or spaces.
func ParsePrefixes(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", part)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Except are the closed ranges to leave out when rule is opened: those that lie inside
// it. A rule inside a closed range names those addresses itself and so opens them.
func Except(rule netip.Prefix, closed []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range closed {
		if c.Addr().Is4() == rule.Addr().Is4() && c.Bits() > rule.Bits() && rule.Contains(c.Addr()) {
			out = append(out, c)
		}
	}
	return out
}
