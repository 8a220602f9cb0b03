package envctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/buildinfo"
	"orchard/internal/exit"
)

const description = `Sandboxes are named by id. Flags may stand anywhere before the remote command:

   id=$(envctl create --image python:3.12)
   envctl exec $id -- python -c 'print(1)'
   envctl cp . $id:/workspace/
   envctl shell $id
   envctl rm $id

   envctl --local run host -- uname -a     # on this machine, without a service

ENVIRONMENT
   SANDBOX_BASE_URL   the sandbox service, http://host:8000
   SANDBOX_API_KEY    its key; never a flag
   KUBECONFIG         where to look for the service when no URL is given

` + codes

// Program is one call of envctl: what it needs from around it. In and Out may be terminals.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	// Cluster finds the service through a kubeconfig; nil when that is not built in.
	Cluster func(ctx context.Context, o ClusterOptions) (Found, error)

	flags flags
	local *service // started for --local
	stops stops
}

// flags are those of every verb.
type flags struct {
	url, keyFile, output           string
	local                          bool
	kubeconfig, context, namespace string
	quiet                          bool
}

// Run does what args (with the program's name first) say and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	ctx, stop := p.stops.watch(ctx)
	defer stop()
	a := p.app()
	err := a.RunContext(ctx, arrange(a, args))
	if p.local != nil {
		err = errors.Join(err, p.local.close())
	}
	return report(p.Err, err, p.flags.output == "json")
}

func (p *Program) app() *cli.App {
	f := &p.flags
	a := &cli.App{
		Name:        "envctl",
		Usage:       "sandboxes by hand",
		Version:     strings.TrimSpace(buildinfo.Version + " " + buildinfo.Commit()),
		Description: description,
		Reader:      p.In, Writer: p.Out, ErrWriter: p.Err,
		ExitErrHandler:  func(*cli.Context, error) {}, // the error goes to Run
		HideHelpCommand: true,
		Suggest:         true,
		OnUsageError:    usage,
		Before: func(*cli.Context) error {
			if f.output != "" && f.output != "json" && f.output != "wide" {
				return exit.Configf("--output: %q is neither json nor wide", f.output)
			}
			return nil
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("no verb %q; `envctl --help` lists them", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "url", EnvVars: []string{client.EnvURL}, Usage: "the sandbox service, `URL`", Destination: &f.url},
			&cli.StringFlag{Name: "key-file", Usage: "read the API key from `FILE`, instead of $" + client.EnvKey, Destination: &f.keyFile},
			&cli.BoolFlag{Name: "local", Usage: "no service: sandboxes on this machine, for as long as this verb runs", Destination: &f.local},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT` of what is printed: json, or wide for more columns", Destination: &f.output},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress", Destination: &f.quiet},
			&cli.StringFlag{Name: "kubeconfig", Usage: "find the service with this kubeconfig `FILE`", Destination: &f.kubeconfig},
			&cli.StringFlag{Name: "context", Usage: "`NAME` of the kubeconfig's context", Destination: &f.context},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the service in the cluster; default: the context's", Destination: &f.namespace},
		},
		Commands: []*cli.Command{
			p.create(), p.ls(), p.get(), p.wait(), p.rm(),
			p.exec(), p.oneOff(), p.shell(), p.cp(), p.patch(), p.jobs(), p.kill(), p.logs(),
			p.events(), p.net(), p.port(), p.pool(), p.image(), p.top(), p.cost(), p.bench(),
			p.serve(), p.completion(), p.version(),
		},
	}
	for _, c := range a.Commands {
		dress(c)
	}
	return a
}

// dress gives a verb and its own verbs what all have.
func dress(c *cli.Command) {
	c.UseShortOptionHandling, c.OnUsageError = true, usage
	c.HideHelpCommand = true
	for _, s := range c.Subcommands {
		dress(s)
	}
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Configf("no verb %q; `envctl %s --help` lists them", c.Args().First(), c.Command.Name)
			}
			return cli.ShowSubcommandHelp(c)
		}
	}
}

func usage(_ *cli.Context, err error, _ bool) error { return exit.With(exit.Config, err) }

// want is the verb's arguments, between least and most (-1: no end) of them.
func want(c *cli.Context, least, most int) ([]string, error) {
	n := c.NArg()
	if n < least || most >= 0 && n > most {
		return nil, exit.Configf("usage: envctl %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return c.Args().Slice(), nil
}

// say tells people what goes on, unless they do not want to know.
func (p *Program) say(format string, a ...any) {
	if !p.flags.quiet {
		fmt.Fprintf(p.Err, format+"\n", a...)
	}
}

func (p *Program) version() *cli.Command {
	return &cli.Command{Name: "version", Usage: "print the program's version", Action: func(*cli.Context) error {
		v := struct {
			Version string `json:"version"`
			Commit  string `json:"commit"`
		}{buildinfo.Version, buildinfo.Commit()}
		return p.print(v, func(w io.Writer) { fmt.Fprintln(w, strings.TrimSpace(v.Version+" "+v.Commit)) })
	}}
}
