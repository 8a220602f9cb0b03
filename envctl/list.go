package envctl

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// filterFlags say which sandboxes are meant.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "those with such labels: `SELECTOR` is k=v,k!=v,k,!k"},
		&cli.StringFlag{Name: "owner", Usage: "those made with the key `NAME`"},
		&cli.StringFlag{Name: "of-image", Usage: "those of `IMAGE`"},
		&cli.StringFlag{Name: "prefix", Usage: "those whose id begins with `TEXT`"},
	}
}

func filter(c *cli.Context) client.Filter {
	return client.Filter{Labels: c.String("selector"), Owner: c.String("owner"), Image: c.String("of-image"), Prefix: c.String("prefix")}
}

func (p *Program) ls() *cli.Command {
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"}, Usage: "list sandboxes",
		Description: "Those that failed are listed with --all, for as long as the service remembers them.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "failed ones too"},
			&cli.StringFlag{Name: "status", Usage: "those that are `STATUS`: pending, ready or failed"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error {
			if _, err := want(c, 0, 0); err != nil {
				return err
			}
			f := filter(c)
			f.Status = client.Status(c.String("status"))
			return p.with(c.Context, func(sdk *client.Client) error {
				all, err := sdk.List(c.Context, f)
				if err != nil {
					return err
				}
				if !c.Bool("all") && f.Status == "" {
					all = slices.DeleteFunc(all, func(i client.Info) bool { return i.Status == client.Failed })
				}
				return p.print(all, func(w io.Writer) { infoTable(w, all, p.flags.output == "wide", time.Now()) })
			})
		},
	}
}

func infoTable(w io.Writer, all []client.Info, wide bool, now time.Time) {
	header := "ID STATUS IMAGE AGE EXPIRES"
	if wide {
		header += " CPU MEMORY OWNER HOST LABELS MESSAGE"
	}
	rows := make([][]string, len(all))
	for i, s := range all {
		status := string(s.Status)
		if s.Reason != "" {
			status += " (" + s.Reason + ")"
		}
		expires := ""
		if !s.Expires.IsZero() && s.Status != client.Failed {
			expires = short(s.Expires.Sub(now))
		}
		rows[i] = []string{s.ID, status, s.Image, age(s.Created.Time, now), expires}
		if wide {
			rows[i] = append(rows[i], s.CPU, s.Memory, s.Owner, s.Host, labels(s.Labels), s.Message)
		}
	}
	table(w, header, rows)
}

func labels(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

func (p *Program) get() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "show one sandbox, with what it costs and why it ended", ArgsUsage: "ID",
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, 1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				info, err := sdk.Sandbox(args[0]).Info(c.Context)
				if err != nil {
					return err
				}
				return p.print(info, func(w io.Writer) { describe(w, info) })
			})
		},
	}
}

func describe(w io.Writer, i client.Info) {
	when := func(t client.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.DateTime)
	}
	network := "open"
	if i.BlockNetwork {
		network = "blocked"
	}
	for _, f := range [][2]string{
		{"id", i.ID}, {"status", string(i.Status)}, {"reason", i.Reason}, {"message", i.Message}, {"image", i.Image},
		{"cpu", i.CPU}, {"memory", i.Memory}, {"limits", i.Limits}, {"network", network}, {"workdir", i.Workdir},
		{"host", i.Host}, {"owner", i.Owner}, {"labels", labels(i.Labels)}, {"created", when(i.Created)},
		{"ready", when(i.ReadyAt)}, {"ended", when(i.Ended)}, {"expires", when(i.Expires)}, {"cost", cost(i.Cost)},
	} {
		if f[1] != "" {
			fmt.Fprintf(w, "%-10s %s\n", f[0], oneLine(f[1]))
		}
	}
}

func (p *Program) wait() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "return when sandboxes are ready", ArgsUsage: "ID...",
		Flags: []cli.Flag{&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "give up on each after `TIME`"}},
		Action: func(c *cli.Context) error {
			args, err := want(c, 1, -1)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				var all []client.Info
				err := each(args, func(id string) error {
					info, err := p.watch(c.Context, sdk.Sandbox(id), c.Duration("timeout"))
					if err == nil {
						all = append(all, info)
					}
					return err
				})
				if !p.json() {
					return err
				}
				return errors.Join(err, p.print(listed(all), nil))
			})
		},
	}
}

func (p *Program) rm() *cli.Command {
	return &cli.Command{
		Name: "rm", Aliases: []string{"delete"}, Usage: "end sandboxes and everything in them", ArgsUsage: "ID... | --all",
		Description: "An id that is not there is no error. --all ends every sandbox that the filters leave, and asks before.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "all that the filters leave, instead of ids"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error {
			f := filter(c)
			some := c.Bool("all") || f != client.Filter{}
			if some == (c.NArg() > 0) {
				return exit.Configf("usage: envctl rm ID..., or envctl rm --all with or without filters such as -l")
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				ids := c.Args().Slice()
				if some {
					all, err := sdk.List(c.Context, f)
					if err != nil {
						return err
					}
					for _, i := range all {
						if i.Status != client.Failed {
							ids = append(ids, i.ID)
						}
					}
					if len(ids) > 0 && !c.Bool("yes") {
						if err := p.confirm(fmt.Sprintf("end %d sandboxes: %s?", len(ids), strings.Join(ids, " "))); err != nil {
							return err
						}
					}
				}
				var ended []string
				err := each(ids, func(id string) error {
					err := sdk.Sandbox(id).Delete(c.Context)
					if err == nil {
						ended = append(ended, id)
					}
					return err
				})
				return errors.Join(err, p.print(listed(ended), func(w io.Writer) {
					for _, id := range ended {
						fmt.Fprintln(w, id)
					}
				}))
			})
		},
	}
}

// confirm asks, and takes only a yes for one.
func (p *Program) confirm(question string) error {
	fmt.Fprintf(p.Err, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(p.In, &answer); err != nil || !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return exit.Configf("nothing was done: say yes, or give --yes")
	}
	return nil
}
