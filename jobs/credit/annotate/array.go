package annotate

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bounds of what is searched for an array, so that no answer takes long to read.
const (
	mostText  = 1 << 20 // bytes, from the end
	mostDepth = 8
)

// lastArray is the last JSON array of objects in a text, as its elements. What people and
// models write around and into JSON is passed over: prose, code fences, commas before a
// closing bracket, NaN and Infinity, which are read as those words. An array of no
// elements counts when there is no other. found is false when there is none at all, or
// the only one is not finished.
func lastArray(text string) (list []map[string]any, found bool) {
	if len(text) > mostText {
		text = text[len(text)-mostText:]
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '[' {
			continue
		}
		s := scanner{text: text, at: i}
		got, ok := s.objects()
		if !ok {
			continue
		}
		if len(got) > 0 || len(list) == 0 {
			list, found = got, true
		}
		i = s.at - 1
	}
	return list, found
}

// scanner reads JSON with the liberties that lastArray takes.
type scanner struct {
	text string
	at   int
}

// next is the next byte that is no space, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// objects is an array of which every element is an object.
func (s *scanner) objects() ([]map[string]any, bool) {
	list := []map[string]any{}
	ok := s.list('[', ']', func() bool {
		if s.next() != '{' {
			return false
		}
		v, ok := s.value(1)
		m, object := v.(map[string]any)
		list = append(list, m)
		return ok && object
	})
	return list, ok
}

// list is elements between brackets, with commas between them and perhaps after the last.
func (s *scanner) list(open, end byte, element func() bool) bool {
	if !s.take(open) {
		return false
	}
	for {
		if s.take(end) {
			return true
		}
		if !element() {
			return false
		}
		if !s.take(',') && s.next() != end {
			return false
		}
	}
}

func (s *scanner) value(depth int) (v any, ok bool) {
	if depth > mostDepth {
		return nil, false
	}
	switch c := s.next(); c {
	case '{':
		m := map[string]any{}
		return m, s.list('{', '}', func() bool {
			key, ok := s.quoted()
			if !ok || !s.take(':') {
				return false
			}
			m[key], ok = s.value(depth + 1)
			return ok
		})
	case '[':
		list := []any{}
		return list, s.list('[', ']', func() bool {
			v, ok := s.value(depth + 1)
			list = append(list, v)
			return ok
		})
	case '"':
		return s.quoted()
	}
	return s.word()
}

// quoted is a string. A line break in one is let pass, since models write them.
func (s *scanner) quoted() (string, bool) {
	if s.next() != '"' {
		return "", false
	}
	for i := s.at + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '"':
			raw := strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s.text[s.at : i+1])
			s.at = i + 1
			var out string
			return out, json.Unmarshal([]byte(raw), &out) == nil
		}
	}
	return "", false
}

// word is a number, true, false or null, or one of the words that JSON does not have,
// which is a string then. So is a number with a percent sign.
func (s *scanner) word() (any, bool) {
	end := s.at
	for end < len(s.text) && end-s.at < 64 && !strings.ContainsRune(" \t\r\n,]}:[{\"", rune(s.text[end])) {
		end++
	}
	w := s.text[s.at:end]
	s.at = end
	switch strings.ToLower(strings.TrimLeft(w, "+-")) {
	case "nan", "inf", "infinity":
		return w, true
	case "null":
		return nil, true
	}
	if strings.HasSuffix(w, "%") && utf8.ValidString(w) {
		return w, true
	}
	var v any
	d := json.NewDecoder(strings.NewReader(w))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	return v, true
}
