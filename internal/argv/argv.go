// Package argv prepares a command line for urfave/cli, which knows neither flags
// after arguments nor a flag that carries further flags.
//
// `orchard run swe-sft -p out=x` becomes `orchard run -p out=x swe-sft`, and
// --options=TEXT becomes the flags in TEXT, one a line, which is how one workflow
// template passes any stage's flags without quoting. A line there whose value is empty
// ("--filter=") is left out: an empty workflow parameter means the flag's default.
package argv

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Options is the flag that Arrange replaces by the lines of its value.
const Options = "--options"

// Arrange is args (with the program's name first) for app: options expanded, flags
// before arguments. What follows "--" is left alone, and so is what it cannot know.
func Arrange(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out, rest := args[:1:1], expand(args[1:])
	commands, flags := app.Commands, app.Flags
	for {
		i := nextWord(rest, flags)
		if i == len(rest) {
			break
		}
		c := find(commands, rest[i])
		if c == nil {
			break
		}
		out = append(append(out, rest[:i]...), rest[i])
		rest, commands, flags = rest[i+1:], c.Subcommands, c.Flags
	}
	return append(out, flagsFirst(rest, flags)...)
}

func expand(args []string) []string {
	var out []string
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		text, ok := strings.CutPrefix(a, Options+"=")
		if !ok {
			out = append(out, a)
			continue
		}
		for _, line := range flagLines(text) {
			if _, value, ok := strings.Cut(line, "="); !ok || value != "" {
				out = append(out, line)
			}
		}
	}
	return out
}

// flagLines is the flags of text. A line that is no flag is more of the value above it,
// which came with line breaks.
func flagLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if last := len(out) - 1; last >= 0 && line != "" && !strings.HasPrefix(line, "-") {
			out[last] += "\n" + line
		} else if line != "" {
			out = append(out, line)
		}
	}
	return out
}

// nextWord is the index of the first element that is no flag and no flag's value, or
// len(args) when there is none before "--".
func nextWord(args []string, flags []cli.Flag) int {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return len(args)
		case len(args[i]) < 2 || args[i][0] != '-':
			return i
		case TakesNext(args[i], flags):
			i++
		}
	}
	return len(args)
}

func flagsFirst(args []string, flags []cli.Flag) []string {
	var first, last []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(append(first, args[i]), append(last, args[i+1:]...)...)
		case len(a) < 2 || a[0] != '-':
			last = append(last, a)
		case TakesNext(a, flags) && i+1 < len(args):
			first = append(first, a, args[i+1])
			i++
		default:
			first = append(first, a)
		}
	}
	return append(first, last...)
}

// TakesNext reports whether flag a, as it was typed, has its value in the next element.
func TakesNext(a string, flags []cli.Flag) bool {
	name := strings.TrimLeft(a, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		d, ok := f.(cli.DocGenerationFlag)
		return ok && d.TakesValue()
	}
	return false
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}
