package envctl

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

const ruleHelp = "A RULE is a domain name or addresses, then ports and a time when wanted:\n" +
	"pypi.org  *.pypi.org:443  203.0.113.0/24  203.0.113.7:22,80  [2001:db8::/32]:443  pypi.org@10m\n" +
	"With @TIME it closes by itself. Ports of a domain are 80 and 443 unless named, of addresses all."

func (p *Program) net() *cli.Command {
	return &cli.Command{
		Name: "net", Usage: "what a sandbox may reach", Description: ruleHelp,
		Subcommands: []*cli.Command{
			{Name: "show", Usage: "print what is open", ArgsUsage: "ID", Action: func(c *cli.Context) error {
				return p.network(c, 1, 1, func(ctx context.Context, box *client.Sandbox, _ []string) (client.Network, error) {
					return box.Network(ctx)
				})
			}},
			{Name: "set", Usage: "open this and nothing else", ArgsUsage: "ID RULE...", Description: ruleHelp, Action: func(c *cli.Context) error {
				return p.network(c, 2, -1, func(ctx context.Context, box *client.Sandbox, list []string) (client.Network, error) {
					rules, err := egressRules(list)
					if err != nil {
						return client.Network{}, err
					}
					return box.SetNetwork(ctx, rules)
				})
			}},
			{Name: "close", Usage: "open nothing", ArgsUsage: "ID", Action: func(c *cli.Context) error {
				return p.network(c, 1, 1, func(ctx context.Context, box *client.Sandbox, _ []string) (client.Network, error) {
					return box.SetNetwork(ctx, nil)
				})
			}},
		},
	}
}

// network does something to a sandbox's network and prints what is open then.
func (p *Program) network(c *cli.Context, least, most int, do func(context.Context, *client.Sandbox, []string) (client.Network, error)) error {
	args, err := want(c, least, most)
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		n, err := do(c.Context, sdk.Sandbox(args[0]), args[1:])
		if err != nil {
			return err
		}
		return p.print(n, func(w io.Writer) { networkTable(w, n, time.Now()) })
	})
}

func networkTable(w io.Writer, n client.Network, now time.Time) {
	switch {
	case !n.BlockNetwork:
		fmt.Fprintln(w, "open: everything but private networks")
		return
	case len(n.Egress) == 0:
		fmt.Fprintln(w, "closed")
		return
	}
	rows := make([][]string, len(n.Egress))
	for i, r := range n.Egress {
		ports := make([]string, len(r.Ports))
		for j, port := range r.Ports {
			ports[j] = strconv.Itoa(int(port))
		}
		left := "never"
		switch {
		case !r.Open:
			left = "closed"
		case !r.Expires.IsZero():
			left = short(r.Expires.Sub(now))
		}
		rows[i] = []string{r.Domain + r.CIDR, strings.Join(ports, ","), left}
	}
	table(w, "TARGET PORTS CLOSES", rows)
}

// egressRules reads rules as net --help has them.
func egressRules(list []string) ([]client.EgressRule, error) {
	rules := []client.EgressRule{}
	for _, text := range list {
		r, err := egressRule(text)
		if err != nil {
			return nil, exit.Configf("rule %q: %w", text, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func egressRule(text string) (r client.EgressRule, err error) {
	text, limit, timed := strings.Cut(text, "@")
	if timed {
		if r.For, err = time.ParseDuration(limit); err != nil || r.For <= 0 {
			return r, fmt.Errorf("%q is not a time such as 10m", limit)
		}
	}
	target, ports := text, ""
	if i := strings.LastIndex(text, ":"); i >= 0 && !isAddress(text) {
		target, ports = text[:i], text[i+1:]
		for _, port := range strings.Split(ports, ",") {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				return r, fmt.Errorf("%q is no port from 1 to 65535", port)
			}
			r.Ports = append(r.Ports, uint16(n))
		}
	}
	if strings.HasPrefix(target, "[") && strings.HasSuffix(target, "]") {
		target = target[1 : len(target)-1]
	}
	switch {
	case target == "":
		return r, fmt.Errorf("there is no target")
	case isAddress(target):
		r.CIDR = target
	default:
		r.Domain = target
	}
	return r, nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	_, err2 := netip.ParsePrefix(s)
	return err == nil || err2 == nil
}
