package envctl

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
)

// cost is what something cost, for people.
func cost(c *client.Cost) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%.1f cpu-s, %.1f GiB-s", c.CPUSeconds, c.MemoryByteSeconds/(1<<30))
	if c.GPUSeconds > 0 {
		text += fmt.Sprintf(", %.1f gpu-s", c.GPUSeconds)
	}
	if c.AmountMicros != nil {
		text += ", " + money(c)
	}
	return text
}

// money is the amount, "" when it is not known.
func money(c *client.Cost) string {
	if c == nil || c.AmountMicros == nil {
		return ""
	}
	return fmt.Sprintf("%.6f %s", float64(*c.AmountMicros)/1e6, c.Currency)
}

func (p *Program) cost() *cli.Command {
	return &cli.Command{
		Name: "cost", Usage: "what sandboxes cost that are, or ended lately",
		Description: "What a scheduler keeps free counts, whether it is used or not. Without a price table the amounts are not known.",
		Flags:       append([]cli.Flag{&cli.StringFlag{Name: "by-label", Usage: "also by the values of label `NAME`"}}, filterFlags()...),
		Action: func(c *cli.Context) error {
			if _, err := want(c, 0, 0); err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				r, err := sdk.Cost(c.Context, filter(c), c.String("by-label"))
				if err != nil {
					return err
				}
				return p.print(r, func(w io.Writer) {
					var rows [][]string
					row := func(kind, name string, g client.CostGroup) {
						rows = append(rows, []string{kind, name, fmt.Sprint(g.Sandboxes), fmt.Sprintf("%.1f", g.CPUSeconds),
							fmt.Sprintf("%.1f", g.MemoryByteSeconds/(1<<30)), fmt.Sprintf("%.1f", g.GPUSeconds), money(&g.Cost)})
					}
					for _, g := range r.ByOwner {
						row("owner", g.Owner, g)
					}
					for _, g := range r.ByLabel {
						row("label", g.Label, g)
					}
					row("total", "", r.Total)
					table(w, "BY NAME SANDBOXES CPU-S GIB-S GPU-S AMOUNT", rows)
				})
			})
		},
	}
}
