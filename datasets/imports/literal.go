package imports

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxDepth bounds how deep a printed value may be nested.
const maxDepth = 64

// literal reads a value as Python or numpy prints it: quoted strings, numbers, None,
// True, False, lists, tuples and dictionaries, and array([...], dtype=...). Elements
// may be separated by white space alone, as numpy does. Numbers keep their digits.
func literal(s string) (any, error) {
	p := &printed{rest: s}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("something follows it at %s", shown(p.rest))
	}
	return v, nil
}

// printed is text of which a part was read.
type printed struct{ rest string }

func (p *printed) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take removes a prefix and the white space behind it.
func (p *printed) take(prefix string) bool {
	after, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = after
		p.space()
	}
	return ok
}

var (
	pyNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?`)
	pyWord   = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9.]*`)
)

func (p *printed) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested too deep")
	}
	switch {
	case p.rest == "":
		return nil, fmt.Errorf("it ends in the middle")
	case p.rest[0] == '\'' || p.rest[0] == '"':
		s, rest, err := pyString(p.rest)
		p.rest = rest
		return s, err
	case p.take("["):
		return p.list("]", depth)
	case p.take("("):
		return p.list(")", depth)
	case p.take("{"):
		return p.dict(depth)
	}
	if n := pyNumber.FindString(p.rest); n != "" {
		p.rest = p.rest[len(n):]
		if !json.Valid([]byte(n)) { // 007
			return n, nil
		}
		return json.Number(n), nil
	}
	word := pyWord.FindString(p.rest)
	p.rest = p.rest[len(word):]
	switch word {
	case "None", "nan", "NaN", "null":
		return nil, nil
	case "True", "true":
		return true, nil
	case "False", "false":
		return false, nil
	case "array", "np.array", "numpy.array":
		return p.array(depth)
	case "":
		return nil, fmt.Errorf("expected a quoted string at %s", shown(p.rest))
	}
	return nil, fmt.Errorf("%s is no value", shown(word))
}

// list is the elements up to the closing bracket.
func (p *printed) list(end string, depth int) (any, error) {
	out := []any{}
	for {
		switch {
		case p.take(end):
			return out, nil
		case p.rest == "":
			return nil, fmt.Errorf("the closing %s is missing", end)
		case strings.HasPrefix(p.rest, "..."):
			return nil, fmt.Errorf("numpy left elements out (...) when it printed the list")
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if err := p.separated(end); err != nil {
			return nil, err
		}
	}
}

// separated takes what stands between two elements, a comma or white space.
func (p *printed) separated(end string) error {
	before := p.rest
	p.space()
	if p.take(",") || strings.HasPrefix(p.rest, end) || p.rest == "" || p.rest != before {
		return nil
	}
	return fmt.Errorf("expected a comma or a space at %s", shown(p.rest))
}

func (p *printed) dict(depth int) (any, error) {
	out := map[string]any{}
	for {
		switch {
		case p.take("}"):
			return out, nil
		case p.rest == "":
			return nil, fmt.Errorf("the closing } is missing")
		}
		k, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if n, number := k.(json.Number); number {
			key, ok = n.String(), true
		}
		if p.space(); !ok || !p.take(":") {
			return nil, fmt.Errorf("expected a name and a colon at %s", shown(p.rest))
		}
		if out[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if p.space(); !p.take(",") && !strings.HasPrefix(p.rest, "}") && p.rest != "" {
			return nil, fmt.Errorf("expected a comma at %s", shown(p.rest))
		}
	}
}

// array is what stands behind the word: a list, and perhaps a dtype.
func (p *printed) array(depth int) (any, error) {
	if !p.take("(") {
		return nil, fmt.Errorf("expected ( at %s", shown(p.rest))
	}
	v, err := p.value(depth + 1)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.take(",") && p.take("dtype=") {
		if w := pyWord.FindString(p.rest); w != "" {
			p.rest = p.rest[len(w):]
		} else if _, err := p.value(depth + 1); err != nil {
			return nil, err
		}
		p.space()
	}
	if !strings.HasPrefix(p.rest, ")") {
		return nil, fmt.Errorf("expected ) at %s", shown(p.rest))
	}
	p.rest = p.rest[1:]
	return v, nil
}

// pyString reads a Python string literal at the start of s. Python escapes by
// backslash and quotes with " when the string holds a '.
func pyString(s string) (value, rest string, err error) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case quote:
			return b.String(), s[i+1:], nil
		case '\\':
			r, _, tail, err := strconv.UnquoteChar(s[i:], quote)
			if err != nil {
				// Python leaves an escape that it does not know as it is; \' and \"
				// are valid under either quote.
				if i+1 < len(s) && (s[i+1] == '\'' || s[i+1] == '"') {
					b.WriteByte(s[i+1])
					i++
				} else {
					b.WriteByte(c)
				}
				continue
			}
			b.WriteRune(r) // \xe9 is a character in Python, not a byte
			i = len(s) - len(tail) - 1
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("the string %s is not closed", shown(s))
}
