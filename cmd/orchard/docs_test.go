package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// commandLines is every command line of this program in a page, with the number of its
// first line: those in code that begin with its name, continued ones whole.
func commandLines(t *testing.T, page string) map[int]string {
	t.Helper()
	f, err := os.Open(page)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[int]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		first, line := n, strings.TrimSpace(lines.Text())
		line = strings.TrimPrefix(strings.TrimPrefix(line, "$ "), "bin/")
		if !strings.HasPrefix(line, "orchard ") {
			continue
		}
		for strings.HasSuffix(line, "\\") && lines.Scan() {
			n++
			line = strings.TrimSuffix(line, "\\") + " " + strings.TrimSpace(lines.Text())
		}
		line, _, _ = strings.Cut(line, " # ")
		line, _, _ = strings.Cut(line, " | ")
		found[first] = line
	}
	return found
}

// takes says what of a command line the program does not take; "" when it takes it all.
func takes(root *cli.App, line string) string {
	words, commands := strings.Fields(line)[1:], root.Commands
	var command *cli.Command
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		next := (*cli.Command)(nil)
		for _, c := range commands {
			if c.HasName(words[0]) {
				next = c
			}
		}
		if next == nil {
			break
		}
		command, commands, words = next, next.Subcommands, words[1:]
	}
	if command == nil {
		return "no such command"
	}
	known := map[string]bool{"help": true}
	for _, f := range command.Flags {
		for _, name := range f.Names() {
			known[name] = true
		}
	}
	for _, w := range words {
		name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if strings.HasPrefix(w, "-") && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == "" && !known[name] {
			return command.FullName() + " has no flag " + w
		}
	}
	return ""
}

// Every command line that the documents show is one that this program takes.
func TestDocumentsShowFlagsThatAreThere(t *testing.T) {
	t.Parallel()
	root, err := app(io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	for _, more := range []string{"../../docs/*/*.md", "../../README.md"} {
		found, globErr := filepath.Glob(more)
		if pages = append(pages, found...); err == nil {
			err = globErr
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range pages {
		for at, line := range commandLines(t, page) {
			if n++; takes(root, line) != "" {
				t.Errorf("%s:%d: %s: %s", page, at, line, takes(root, line))
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d command lines were found", n)
	}
	for line, want := range map[string]string{
		"orchard dataset show out/rates --where decision=keep": "show has no flag --where",
		"orchard distil --in x":                                "no such command",
	} {
		if got := takes(root, line); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// No flag is without help, and one that takes nothing names nothing that it takes.
func TestFlagsHaveHelp(t *testing.T) {
	t.Parallel()
	root, err := app(io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var visit func(commands []*cli.Command)
	visit = func(commands []*cli.Command) {
		for _, c := range commands {
			for _, f := range c.Flags {
				usage := ""
				if d, ok := f.(cli.DocGenerationFlag); ok {
					usage = d.GetUsage()
				}
				_, isBool := f.(*cli.BoolFlag)
				switch {
				case usage == "":
					t.Errorf("%s --%s has no help", c.FullName(), f.Names()[0])
				case isBool && strings.Contains(usage, "`"):
					t.Errorf("%s --%s takes nothing, and its help names %q", c.FullName(), f.Names()[0], usage)
				}
			}
			visit(c.Subcommands)
		}
	}
	visit(root.Commands)
}
