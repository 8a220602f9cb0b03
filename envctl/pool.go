package envctl

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

func (p *Program) pool() *cli.Command {
	return &cli.Command{
		Name: "pool", Usage: "sandboxes that are ready before anybody asks for them",
		Subcommands: []*cli.Command{
			{Name: "ls", Usage: "list pools", Action: p.poolList},
			{
				Name: "set", Aliases: []string{"create"}, Usage: "make a pool, or change one", ArgsUsage: "NAME IMAGE",
				Description: "A sandbox comes from a pool when image, cpu, memory and the like are the same as the pool's.",
				Flags: append([]cli.Flag{
					&cli.IntFlag{Name: "size", Value: 1, Usage: "keep `N` ready"},
					&cli.BoolFlag{Name: "shared", Usage: "for sandboxes of every owner; needs an admin key"},
				}, shapeFlags()...),
				Action: p.poolSet,
			},
			{Name: "rm", Usage: "end pools and what nobody has claimed of them", ArgsUsage: "NAME...", Action: func(c *cli.Context) error {
				args, err := want(c, 1, -1)
				if err != nil {
					return err
				}
				return p.with(c.Context, func(sdk *client.Client) error {
					return each(args, func(name string) error { return sdk.DeletePool(c.Context, name) })
				})
			}},
		},
	}
}

// notOfPools are flags of a sandbox that a pool does not have: they come with the claim.
var notOfPools = map[string]bool{"id": true, "env": true, "workdir": true, "label": true, "network": true, "allow": true, "lifetime": true, "lease": true, "ready-timeout": true}

// shapeFlags are the flags of create that a pool has too.
func shapeFlags() (flags []cli.Flag) {
	for _, f := range specFlags() {
		if !notOfPools[f.Names()[0]] {
			flags = append(flags, f)
		}
	}
	return flags
}

func (p *Program) poolSet(c *cli.Context) error {
	if err := p.noLocal("pool"); err != nil {
		return err
	}
	args, err := want(c, 2, 2)
	if err != nil {
		return err
	}
	if c.Int("size") < 0 {
		return exit.Configf("--size: %d is below zero", c.Int("size"))
	}
	s, err := spec(c, args[1])
	if err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		pool, err := sdk.SetPool(c.Context, args[0], client.PoolSpec{
			Image: s.Image, Size: c.Int("size"), Shared: c.Bool("shared"), CPU: s.CPU, Memory: s.Memory, CPURequest: s.CPURequest,
			MemoryRequest: s.MemoryRequest, Disk: s.Disk, GPU: s.GPU, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations,
			RuntimeClass: s.RuntimeClass, PriorityClass: s.PriorityClass, PullSecrets: s.PullSecrets, Spot: s.Spot,
		})
		if err != nil {
			return err
		}
		return p.print(pool, func(w io.Writer) { poolTable(w, []client.Pool{pool}, time.Now()) })
	})
}

func (p *Program) poolList(c *cli.Context) error {
	if _, err := want(c, 0, 0); err != nil {
		return err
	}
	return p.with(c.Context, func(sdk *client.Client) error {
		all, err := sdk.Pools(c.Context)
		if err != nil {
			return err
		}
		return p.print(listed(all), func(w io.Writer) { poolTable(w, all, time.Now()) })
	})
}

func poolTable(w io.Writer, all []client.Pool, now time.Time) {
	rows := make([][]string, len(all))
	for i, p := range all {
		note := p.Message
		if p.Failures > 0 && p.RetryAt.After(now) {
			note = fmt.Sprintf("next try in %s: %s", short(p.RetryAt.Sub(now)), note)
		}
		rows[i] = []string{p.Name, p.Image, p.CPU, p.Memory, fmt.Sprintf("%d/%d", p.Ready, p.Size), strconv.Itoa(p.Starting), strconv.Itoa(p.Claimed), note}
	}
	table(w, "NAME IMAGE CPU MEMORY READY STARTING CLAIMED NOTE", rows)
}
