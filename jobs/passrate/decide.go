package passrate

import (
	"fmt"

	"orchard/datasets/record"
	"orchard/internal/passrate"
)

// state is what the draws of a task say, up to the first that decides.
type state struct {
	decision passrate.Decision
	draws    []record.Draw // those that the decision rests on, by index
	pass     int
	known    int
	need     []int64
	invalid  bool // the task cannot be graded, whoever solves it
}

// look reads the draws in the order of their indexes, as far as there is no gap, so that
// what is decided does not depend on which of them ended first.
func (c Config) look(ended []record.Draw) (state, error) {
	s := state{draws: []record.Draw{}}
	most := c.Rule.N + c.Redraws
	for {
		n := len(s.draws)
		left := min(c.Rule.N-s.known, most-n)
		var err error
		if c.Early || left == 0 {
			if s.decision, err = c.Rule.Decide(s.pass, s.known, left); err != nil {
				return s, err
			}
		} else {
			s.decision = passrate.Undecided
		}
		if s.decision != passrate.Undecided {
			return s, nil
		}
		if n == len(ended) || ended[n].Index != int64(n) {
			ahead := left
			if c.Early {
				if ahead, err = c.Rule.Ahead(s.pass, s.known, left); err != nil {
					return s, err
				}
			}
			for i := range ahead {
				s.need = append(s.need, int64(n+i))
			}
			return s, nil
		}
		d := ended[n]
		s.draws = append(s.draws, d)
		switch {
		case d.Outcome == record.TaskInvalid:
			s.decision, s.invalid = passrate.Unknown, true
			return s, nil
		case d.Reward != nil:
			s.known++
			if *d.Reward > 0 {
				s.pass++
			}
		}
	}
}

// reason is the decision in words.
func (c Config) reason(s state) string {
	r := c.Rule
	switch s.decision {
	case passrate.Keep:
		return fmt.Sprintf("%d of %d passed, which is above %v and at most %v", s.pass, s.known, r.Lo, r.Hi)
	case passrate.Drop:
		return fmt.Sprintf("%d of %d passed, which is not above %v and at most %v", s.pass, s.known, r.Lo, r.Hi)
	}
	if s.invalid {
		return "the task cannot be graded"
	}
	return fmt.Sprintf("%d of %d draws have a reward, which is fewer than %d", s.known, len(s.draws), r.NMin)
}
