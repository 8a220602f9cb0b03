package envctl

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/internal/argv"
)

// literal are the verbs whose second argument begins a command that is none of ours.
var literal = []string{"exec", "run"}

// arrange is args (with the program's name first) as urfave/cli wants them: the flags of
// every verb before the verb, a verb's own before its arguments, and after "--" the
// arguments. `envctl exec ID -t ls -l` becomes `envctl exec -t -- ID ls -l`.
func arrange(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	var front, own, words []string
	var verb, commands, flags = []string{}, app.Commands, []cli.Flag(nil)
	rest, most := args[1:], -1
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		switch {
		case a == "--":
			words = append(words, rest[i+1:]...)
			i = len(rest)
		case len(a) < 2 || a[0] != '-':
			if c := find(commands, a); c != nil && len(words) == 0 {
				verb, commands, flags = append(verb, a), c.Subcommands, c.Flags
				if slices.Contains(literal, a) {
					most = 1
				}
				continue
			}
			commands = nil
			if words = append(words, a); most >= 0 && len(words) > most {
				words = append(words, rest[i+1:]...)
				i = len(rest)
			}
		default:
			to, of := &own, flags
			if shared := app.VisibleFlags(); len(verb) == 0 || named(shared, a) && !named(flags, a) {
				to, of = &front, shared
			}
			*to = append(*to, a)
			if argv.TakesNext(a, of) && i+1 < len(rest) {
				i++
				*to = append(*to, rest[i])
			}
		}
	}
	out := slices.Concat(args[:1], front, verb, own)
	if len(words) > 0 {
		out = append(append(out, "--"), words...)
	}
	return out
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// named reports whether flag a, as it was typed, is one of flags.
func named(flags []cli.Flag, a string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return true
		}
	}
	return false
}
