package doctor

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/internal/sandbox/local"
)

const description = `Looks at the kernel, namespaces, cgroups, the agent, Go, git, disk space and the
toolchains that example tasks use, then makes one sandbox and ends it. Each line is
ok, warn (something works less well) or fail; warn and fail say what it means and what
to do. Nothing is changed.

` + exit.Help

// Command is "orchard doctor".
func Command() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "say whether this machine can run sandboxes, and what to do if not",
		Description: description,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state-dir", EnvVars: []string{"ORCHARD_STATE_DIR"}, Usage: "`FOLDER` where sandboxes would be kept (default: orchard in the user's cache folder)"},
			&cli.StringFlag{Name: "agent", EnvVars: []string{"ORCHARD_AGENT"}, Usage: "`FILE` of orchard-agent (default: beside this program or on PATH)"},
			&cli.BoolFlag{Name: "json", Usage: "print findings as a JSON array"},
		},
		OnUsageError: runner.UsageError,
		Action:       action,
	}
}

func action(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Configf("doctor takes no arguments, got %q", c.Args().First())
	}
	o := Options{StateDir: c.String("state-dir"), AgentPath: c.String("agent")}
	if o.StateDir == "" {
		o.StateDir = local.DefaultCache()
	}
	findings := Examine(c.Context, o)
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		if err := e.Encode(findings); err != nil {
			return fmt.Errorf("print findings: %w", err)
		}
	} else if err := Print(c.App.Writer, findings); err != nil {
		return fmt.Errorf("print findings: %w", err)
	}
	return failed(findings)
}
