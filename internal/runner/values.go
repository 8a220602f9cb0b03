package runner

import (
	"os"

	"github.com/urfave/cli/v2"
)

// ListFlag is a repeatable flag of a stage's own, like --in: values may hold commas, several
// may be given at once, a line each, and what the command line says replaces what the
// environment says.
func ListFlag(name, env, category, usage string, to *[]string) cli.Flag {
	return &cli.GenericFlag{Name: name, Category: category, EnvVars: []string{env}, Value: &list{to: to, env: os.Getenv(env) != ""}, Usage: usage}
}

// ShareFlag is a flag of a stage's own whose value is a share, such as 2%.
func ShareFlag(name, env, category, usage string, to *Share) cli.Flag {
	return &cli.GenericFlag{Name: name, Category: category, EnvVars: []string{env}, Value: &text[Share]{to, ParseShare}, Usage: usage}
}
