package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/evaluation"
)

// batchBytes is when a script file of trajectories is full.
const batchBytes = 2 << 20

// scripts writes trajectories into files of about batchBytes, and an index of all.
// Only the index grows with the number of rollouts.
type scripts struct {
	put   func(name string, b []byte) error
	batch []trajectory
	bytes int
	files int
	index []entry
}

// entry is a line of the viewer's list. file is the number of the script it lies in.
type entry struct {
	id, task        string
	index           int64
	policy, harness string
	outcome         record.Outcome
	exit            string
	steps, file     int
}

// MarshalJSON writes an array: names would be most of a long index.
func (e entry) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{e.id, e.task, e.index, e.policy, e.harness, e.outcome, class(e.outcome), e.exit, e.steps, e.file})
}

func scriptName(file int) string { return fmt.Sprintf("trajectories-%05d.js", file) }

func (s *scripts) add(t trajectory) error {
	s.index = append(s.index, entry{t.ID, t.Task, t.Index, t.Policy, t.Harness, t.Outcome, t.Exit, len(t.Steps), s.files})
	s.batch = append(s.batch, t)
	s.bytes += t.size()
	if s.bytes < batchBytes {
		return nil
	}
	return s.flush()
}

func (s *scripts) flush() error {
	if len(s.batch) == 0 {
		return nil
	}
	b, err := script("add", s.batch)
	if err != nil {
		return err
	}
	if err := s.put(scriptName(s.files), b); err != nil {
		return err
	}
	s.files, s.batch, s.bytes = s.files+1, nil, 0
	return nil
}

// close writes what is left, and the index in the order in which people look.
func (s *scripts) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	slices.SortFunc(s.index, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.policy, b.policy), cmp.Compare(a.harness, b.harness),
			cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id))
	})
	if s.index == nil {
		s.index = []entry{}
	}
	b, err := script("index", s.index)
	if err != nil {
		return err
	}
	return s.put("index.js", b)
}

// script is a file that hands value to a function of the viewer. encoding/json escapes
// what would end a script element or a line of JavaScript.
func script(function string, value any) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("orchard."+function+"("), b...), ");\n"...), nil
}

// samples keeps a trajectory of each outcome for the page itself: the first that is
// not large, else the smallest.
type samples struct {
	of    map[record.Outcome]trajectory
	bytes map[record.Outcome]int
}

const largeSample = 256 << 10

func (s *samples) add(t trajectory) {
	if s.of == nil {
		s.of, s.bytes = map[record.Outcome]trajectory{}, map[record.Outcome]int{}
	}
	n := t.size()
	if have, ok := s.bytes[t.Outcome]; ok && (have <= largeSample || have <= n) {
		return
	}
	s.of[t.Outcome], s.bytes[t.Outcome] = t, n
}

func (s *samples) list() []trajectory {
	list := make([]trajectory, 0, len(s.of))
	for _, t := range s.of {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b trajectory) int { return evaluation.CompareOutcomes(a.Outcome, b.Outcome) })
	return list
}
