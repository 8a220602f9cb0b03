package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"orchard/internal/exit"
	"orchard/internal/seal"
)

// members is the values of a set.
type members struct {
	of  string
	has map[string]bool
}

// contains reports whether a value is in the set.
func (m members) contains(value string) (bool, error) {
	if m.of == OfSites {
		site, err := Site(value)
		if err != nil {
			return false, unknown{err}
		}
		value = site
	}
	return m.has[value], nil
}

// sum is the hash of what is in the set.
func (m members) sum() (string, error) {
	return seal.Sum(append([]string{m.of}, slices.Sorted(maps.Keys(m.has))...))
}

// ReadFile reads a file; a path of a set is beside the rule file.
type ReadFile func(path string) ([]byte, error)

// load reads the sets of a file. given are the paths of --set by name: they stand in for
// what the rule file says, and several are one set.
func load(name string, sets map[string]Set, given map[string][]string, beside, anywhere ReadFile) (map[string]members, error) {
	var errs []error
	out := map[string]members{}
	for _, set := range slices.Sorted(maps.Keys(given)) {
		if _, ok := sets[set]; !ok {
			errs = append(errs, fmt.Errorf("--set %s: %s has no such set%s", set, name, didYouMean(set, slices.Sorted(maps.Keys(sets)))))
		}
	}
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		s := sets[set]
		values := s.Values
		read := func(how ReadFile, path string) {
			b, err := how(path)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("there is no file %s", path)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: set %s: %w", name, s.line, set, err))
			}
			values = append(values, lines(string(b))...)
		}
		paths, replaced := given[set]
		switch {
		case replaced:
			values = nil
			for _, path := range paths {
				read(anywhere, path)
			}
		case s.Given:
			errs = append(errs, fmt.Errorf("%s:%d: set %s: is not part of the rule file; give it with --set %s=FILE, one value a line", name, s.line, set, set))
			continue
		case s.File != "":
			read(beside, s.File)
		}
		m := members{of: s.Of, has: map[string]bool{}}
		for _, v := range values {
			if s.Of == OfSites {
				site, err := Site(v)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: set %s: %w", name, s.line, set, err))
					continue
				}
				v = site
			}
			m.has[v] = true
		}
		if len(m.has) == 0 && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s:%d: set %s: holds no value", name, s.line, set))
		}
		out[set] = m
	}
	return out, exit.With(exit.Config, errors.Join(errs...))
}

// lines is the lines of a list: one value each, blank lines and those with # left out.
func lines(s string) []string {
	var out []string
	for line := range strings.Lines(strings.TrimPrefix(s, "\ufeff")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}
