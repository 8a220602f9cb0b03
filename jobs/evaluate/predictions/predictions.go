// Package predictions reads what other systems say they would change: files of SWE-bench's
// forms, a list, a map by instance id, or a line each. It grades nothing.
package predictions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Prediction is one system's diff for one task.
type Prediction struct {
	Task  string
	Model string
	Patch string // "" also when it is null: the system changed nothing
	Null  bool
	At    string // file and place, for messages
}

// A Set is the predictions of all files, one a model and task.
type Set struct {
	list []Prediction
	at   map[[2]string]int // by model and task
}

// Len is how many there are.
func (s *Set) Len() int { return len(s.list) }

// Of is a model's prediction for a task, nil when it has none.
func (s *Set) Of(model, task string) *Prediction {
	if i, ok := s.at[[2]string{model, task}]; ok {
		return &s.list[i]
	}
	return nil
}

// All is every prediction in the order of the files.
func (s *Set) All() []Prediction { return s.list }

// Models are the models in their order.
func (s *Set) Models() []string {
	var list []string
	for _, p := range s.list {
		list = append(list, p.Model)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Add reads a file. The error names the place and what is wrong there.
func (s *Set) Add(file string, content []byte) error {
	if !utf8.Valid(content) {
		return fmt.Errorf("%s: is not UTF-8; a diff that is not cannot be told from a damaged one", file)
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	before := len(s.list)
	d := json.NewDecoder(bytes.NewReader(content))
	var err error
	switch first, whole := begin(content); {
	case first == '[':
		err = s.array(d, file)
	case first == '{' && whole:
		err = s.object(d, file)
	case first == '{':
		err = s.lines(content, file)
	case first == 0:
		return fmt.Errorf("%s: is empty", file)
	default:
		return fmt.Errorf("%s: is neither a JSON list, nor a JSON object, nor JSON lines; it begins with %q", file, first)
	}
	if err == nil && len(s.list) == before {
		err = fmt.Errorf("%s: holds no predictions", file)
	}
	return err
}

// begin is the first character, and whether all is one JSON object that is no prediction
// itself: a map by instance id.
func begin(content []byte) (first byte, whole bool) {
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return 0, false
	}
	if content[0] != '{' {
		return content[0], false
	}
	d := json.NewDecoder(bytes.NewReader(content))
	var one map[string]json.RawMessage
	if d.Decode(&one) != nil {
		// Lines have their own errors; a map that breaks off has its first line open.
		line, _, _ := bytes.Cut(content, []byte("\n"))
		return '{', !json.Valid(line)
	}
	_, err := d.Token()
	id := bytes.TrimSpace(one["instance_id"])
	return '{', err == io.EOF && !bytes.HasPrefix(id, []byte{'"'})
}

func (s *Set) array(d *json.Decoder, file string) error {
	_, err := d.Token()
	for n := 1; err == nil && d.More(); n++ {
		var row json.RawMessage
		at := fmt.Sprintf("%s: prediction %d", file, n)
		if err = d.Decode(&row); err == nil {
			err = s.add(row, "", at)
			if err != nil {
				return err
			}
		}
	}
	return s.end(d, file, err)
}

func (s *Set) object(d *json.Decoder, file string) error {
	_, err := d.Token()
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		var row json.RawMessage
		if err = d.Decode(&row); err == nil {
			id, _ := key.(string)
			if err := s.add(row, id, fmt.Sprintf("%s: prediction %q", file, id)); err != nil {
				return err
			}
		}
	}
	return s.end(d, file, err)
}

// end is the end of a list or map, and of its file.
func (s *Set) end(d *json.Decoder, file string, err error) error {
	if err == nil {
		_, err = d.Token()
	}
	if err == nil {
		if _, extra := d.Token(); extra != io.EOF {
			err = errors.New("something follows the end of the JSON value")
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it breaks off")
	}
	return fmt.Errorf("%s: is no whole JSON, at byte %d: %w", file, d.InputOffset(), err)
}

func (s *Set) lines(content []byte, file string) error {
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		at := fmt.Sprintf("%s:%d", file, n)
		if !json.Valid(line) {
			return fmt.Errorf("%s: is no JSON; all of a prediction is on one line", at)
		}
		if err := s.add(line, "", at); err != nil {
			return err
		}
	}
	return nil
}

// add takes one prediction. id is the key that it has in a map.
func (s *Set) add(raw []byte, id, at string) error {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(raw, &row); err != nil || row == nil {
		return fmt.Errorf("%s: is no object with instance_id, model_name_or_path and model_patch", at)
	}
	p := Prediction{At: at, Task: id}
	own, err := text(row, "instance_id", at)
	if err != nil {
		return err
	}
	switch {
	case id == "" && own == nil:
		return fmt.Errorf("%s: instance_id: is missing", at)
	case own != nil && id != "" && *own != id:
		return fmt.Errorf("%s: instance_id: is %q", at, *own)
	case own != nil:
		p.Task = *own
	}
	model, err := text(row, "model_name_or_path", at)
	if err != nil {
		return err
	}
	if model == nil || strings.TrimSpace(*model) == "" {
		return fmt.Errorf("%s: model_name_or_path: is missing; results are reported by it", at)
	}
	p.Model = *model
	field := "model_patch"
	if _, ok := row[field]; !ok {
		field = "patch"
	}
	if _, ok := row[field]; !ok {
		return fmt.Errorf("%s: model_patch: is missing; a system that changed nothing has an empty one, or null", at)
	}
	patch, err := text(row, field, at)
	if err != nil {
		return err
	}
	if p.Null = patch == nil; !p.Null {
		p.Patch = *patch
	}
	key := [2]string{p.Model, p.Task}
	if other, ok := s.at[key]; ok {
		return fmt.Errorf("%s: model %q has a prediction for %s already, at %s; keep one", at, p.Model, p.Task, s.list[other].At)
	}
	if s.at == nil {
		s.at = map[[2]string]int{}
	}
	s.at[key] = len(s.list)
	s.list = append(s.list, p)
	return nil
}

// text is a field that holds text; nil when it is missing or null.
func text(row map[string]json.RawMessage, field, at string) (*string, error) {
	raw, ok := row[field]
	if !ok {
		return nil, nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %s: must be text, is %.40s", at, field, raw)
	}
	return s, nil
}
