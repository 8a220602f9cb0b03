package envctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
)

// row is a sandbox in top.
type row struct {
	client.Info
	Age float64 `json:"age_seconds"`
}

func (p *Program) top() *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "watch what sandboxes hold and cost",
		Description: "CPU and memory are what is reserved. With -o json, or once, it does not clear the screen.",
		Flags: append([]cli.Flag{
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "look every `TIME`"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "look so often; 0 is until Ctrl-C"},
			&cli.IntFlag{Name: "rows", Value: 30, Usage: "show at most so many, the dearest first"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error {
			if _, err := want(c, 0, 0); err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				for n := 1; ; n++ {
					if err := p.look(c, sdk); err != nil {
						return err
					}
					if n == c.Int("count") {
						return nil
					}
					select {
					case <-c.Context.Done():
						return nil // Ctrl-C is how one leaves
					case <-time.After(c.Duration("interval")):
					}
				}
			})
		},
	}
}

// look shows all sandboxes once.
func (p *Program) look(c *cli.Context, sdk *client.Client) error {
	f := filter(c)
	all, err := sdk.List(c.Context, f)
	if err != nil {
		return err
	}
	sum, err := sdk.Cost(c.Context, f, "")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i client.Info) bool { return i.Status == client.Failed })
	rows := p.dearest(c.Context, sdk, all, c.Int("rows"))
	v := struct {
		At        client.Time      `json:"at"`
		Sandboxes int              `json:"sandboxes"`
		Cost      client.CostGroup `json:"cost"`
		Rows      []row            `json:"rows"`
	}{client.Time{Time: time.Now()}, len(all), sum.Total, rows}
	return p.print(v, func(w io.Writer) {
		if c.Int("count") != 1 {
			fmt.Fprint(w, "\x1b[H\x1b[J") // home, and clear to the end
		}
		fmt.Fprintf(w, "%d sandboxes   %s   %s\n\n", len(all), cost(&sum.Total.Cost), v.At.Format(time.TimeOnly))
		cells := make([][]string, len(rows))
		for i, r := range rows {
			gib := ""
			if r.Cost != nil {
				gib = fmt.Sprintf("%.1f", r.Cost.MemoryByteSeconds/(1<<30))
			}
			cells[i] = []string{r.ID, string(r.Status), r.Image, r.CPURequest, r.MemoryRequest, age(r.Created.Time, v.At.Time), gib, money(r.Cost)}
		}
		table(w, "ID STATUS IMAGE CPU MEMORY AGE GIB-S COST", cells)
	})
}

// dearest is at most n of all, the oldest first as they hold most, with their cost. One
// that ends meanwhile is left out.
func (p *Program) dearest(ctx context.Context, sdk *client.Client, all []client.Info, n int) []row {
	slices.SortStableFunc(all, func(a, b client.Info) int { return a.Created.Compare(b.Created.Time) })
	rows := []row{}
	for _, i := range all[:min(max(n, 0), len(all))] {
		full, err := sdk.Sandbox(i.ID).Info(ctx)
		if err != nil {
			continue
		}
		rows = append(rows, row{full, time.Since(full.Created.Time).Seconds()})
	}
	amount := func(r row) float64 {
		switch {
		case r.Cost == nil:
			return 0
		case r.Cost.AmountMicros != nil:
			return float64(*r.Cost.AmountMicros)
		}
		return r.Cost.CPUSeconds
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(amount(b), amount(a)) })
	return rows
}
