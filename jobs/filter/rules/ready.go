package rules

import (
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed ready/*.yaml
var ready embed.FS

// Ready is the names of the rule files that come with the program.
func Ready() []string {
	entries, _ := ready.ReadDir("ready") // embedded: it is there
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(names)
	return names
}

// ReadyFile is a rule file that comes with the program, as it was written.
func ReadyFile(name string) ([]byte, bool) {
	b, err := ready.ReadFile("ready/" + name + ".yaml")
	return b, err == nil
}
