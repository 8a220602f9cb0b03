package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"orchard/internal/exit"
)

// What becomes of a row of which a rule does not know.
const (
	AbsentError = "error" // the stage ends, and says why
	AbsentKeep  = "keep"
	AbsentDrop  = "drop" // under the rule's name and "_unknown"
)

// File is a rule file as it was written.
type File struct {
	About string         `json:"about"`
	Sets  map[string]Set `json:"sets"`
	Rules []Rule         `json:"rules"`
}

// Set is a named list of values.
type Set struct {
	Of     string   `json:"of"`     // OfText or OfSites
	File   string   `json:"-"`      // beside the rule file; its content counts, not its name
	Values []string `json:"values"` // written in the rule file itself
	Given  bool     `json:"given"`  // whoever runs the stage has to give it
	line   int
}

// The kinds of sets.
const (
	OfText  = "text"  // a value is in it when it is a line of it
	OfSites = "sites" // a value is in it when its registrable domain is
)

// Rule is one rule. It has one of Keep, Drop and Contaminated.
type Rule struct {
	Name         string   `json:"name"`
	Keep         string   `json:"keep"`
	Drop         string   `json:"drop"`
	Contaminated []string `json:"contaminated"` // checks against evaluation sets; any hit drops
	Evals        []string `json:"evals"`        // names of the evaluation sets; empty for all
	Absent       string   `json:"absent"`
	Why          string   `json:"why"`
	line         int
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,59}$`)

// parse reads a rule file; name is for messages. Everything that is wrong is said at once,
// with its line.
func parse(name string, b []byte) (*File, error) {
	p := &reader{name: name}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, exit.Configf("%s: is empty; it needs rules:", name)
		}
		return nil, exit.Configf("%s: %w", name, err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, exit.Configf("%s: holds a second document; a rule file is one", name)
	}
	f := &File{Sets: map[string]Set{}}
	root := doc.Content[0]
	p.object(root, map[string]func(*yaml.Node){
		"about": func(n *yaml.Node) { f.About = p.text(n) },
		"sets": func(n *yaml.Node) {
			p.pairs(n, func(key, value *yaml.Node) {
				if !namePattern.MatchString(key.Value) {
					p.bad(key, "set %q: a name is lower-case letters, digits and _", key.Value)
				}
				f.Sets[key.Value] = p.set(key.Value, value)
			})
		},
		"rules": func(n *yaml.Node) { f.Rules = p.rules(n) },
	})
	if len(f.Rules) == 0 && len(p.errs) == 0 {
		p.bad(root, "has no rules; write at least one under rules:")
	}
	return f, exit.With(exit.Config, errors.Join(p.errs...))
}

type reader struct {
	name string
	errs []error
}

func (p *reader) bad(n *yaml.Node, format string, a ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.name, n.Line, fmt.Sprintf(format, a...)))
}

// pairs visits an object's pairs; a key that is there twice is wrong.
func (p *reader) pairs(n *yaml.Node, visit func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		p.bad(n, "must be an object of key: value, not %s", kindOf(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			p.bad(key, "%s: is there twice", key.Value)
			continue
		}
		seen[key.Value] = true
		visit(key, n.Content[i+1])
	}
}

// object visits an object whose keys are known.
func (p *reader) object(n *yaml.Node, keys map[string]func(*yaml.Node)) {
	p.pairs(n, func(key, value *yaml.Node) {
		set, ok := keys[key.Value]
		if !ok {
			var known []string
			for k := range keys {
				known = append(known, k)
			}
			slices.Sort(known)
			p.bad(key, "unknown key %q%s; known are %s%s", key.Value, didYouMean(key.Value, known), strings.Join(known, ", "), torn(key.Value))
			return
		}
		set(value)
	})
}

func (p *reader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		p.bad(n, "must be text, not %s", kindOf(n))
	}
	return strings.TrimSpace(n.Value)
}

func (p *reader) texts(n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode {
		p.bad(n, "must be a list of texts, not %s", kindOf(n))
		return nil
	}
	list := []string{}
	for _, e := range n.Content {
		list = append(list, p.text(e))
	}
	return list
}

func (p *reader) set(name string, n *yaml.Node) Set {
	s := Set{Of: OfText, line: n.Line}
	p.object(n, map[string]func(*yaml.Node){
		"of":     func(n *yaml.Node) { s.Of = p.text(n) },
		"file":   func(n *yaml.Node) { s.File = p.text(n) },
		"values": func(n *yaml.Node) { s.Values = p.texts(n) },
		"given": func(n *yaml.Node) {
			if s.Given = n.Value == "true"; !s.Given {
				p.bad(n, "given: can only be true")
			}
		},
	})
	sources := 0
	for _, there := range []bool{s.File != "", len(s.Values) > 0, s.Given} {
		if there {
			sources++
		}
	}
	if sources != 1 && n.Kind == yaml.MappingNode {
		p.bad(n, "set %s: needs one of file: PATH, values: [...] and given: true", name)
	}
	if s.Of != OfText && s.Of != OfSites {
		p.bad(n, "set %s: of: %q is neither %s nor %s", name, s.Of, OfText, OfSites)
	}
	return s
}

func (p *reader) rules(n *yaml.Node) []Rule {
	if n.Kind != yaml.SequenceNode {
		p.bad(n, "rules: must be a list of rules, not %s", kindOf(n))
		return nil
	}
	var list []Rule
	names := map[string]bool{}
	for _, e := range n.Content {
		r := Rule{Absent: AbsentError, line: e.Line}
		p.object(e, map[string]func(*yaml.Node){
			"name":         func(n *yaml.Node) { r.Name = p.text(n) },
			"keep":         func(n *yaml.Node) { r.Keep = p.text(n) },
			"drop":         func(n *yaml.Node) { r.Drop = p.text(n) },
			"contaminated": func(n *yaml.Node) { r.Contaminated = p.texts(n) },
			"evals":        func(n *yaml.Node) { r.Evals = p.texts(n) },
			"absent":       func(n *yaml.Node) { r.Absent = p.text(n) },
			"why":          func(n *yaml.Node) { r.Why = p.text(n) },
		})
		if e.Kind == yaml.MappingNode {
			p.rule(e, r, names)
		}
		list = append(list, r)
	}
	return list
}

// rule says what is wrong with a rule before its expression is looked at.
func (p *reader) rule(n *yaml.Node, r Rule, names map[string]bool) {
	switch {
	case r.Name == "":
		p.bad(n, "a rule has no name; it is the reason under which rows are counted")
	case !namePattern.MatchString(r.Name):
		p.bad(n, "rule %q: a name is lower-case letters, digits and _", r.Name)
	case names[r.Name]:
		p.bad(n, "rule %s: the name is taken; each rule has its own", r.Name)
	}
	names[r.Name] = true
	conditions := 0
	for _, there := range []bool{r.Keep != "", r.Drop != "", len(r.Contaminated) > 0} {
		if there {
			conditions++
		}
	}
	switch {
	case conditions != 1:
		p.bad(n, "rule %s: needs one of keep: EXPRESSION, drop: EXPRESSION and contaminated: [CHECK, ...]", r.Name)
	case len(r.Evals) > 0 && len(r.Contaminated) == 0:
		p.bad(n, "rule %s: evals: goes with contaminated:", r.Name)
	case r.Absent != AbsentError && len(r.Contaminated) > 0:
		p.bad(n, "rule %s: absent: goes with keep: and drop:", r.Name)
	case r.Absent != AbsentError && r.Absent != AbsentKeep && r.Absent != AbsentDrop:
		p.bad(n, "rule %s: absent: %q is none of %s, %s, %s", r.Name, r.Absent, AbsentError, AbsentKeep, AbsentDrop)
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return "the text " + fmt.Sprintf("%q", n.Value)
}
