// Package annotate asks a teacher what it believes at the key steps of its own
// trajectory, now that the outcome is known, and reads its answer strictly: the prompt,
// what is left out of one that is too long, and the rules that an answer must keep.
//
// It sends nothing and knows no store. An answer that breaks a rule is a *Reject with a
// name and with words for the teacher; it is never mended by guessing.
package annotate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Key is what a teacher says of a key step.
type Key struct {
	Step      int
	P         float64 // of success in the end
	Reasoning string
}

// The rules of calibration: a failure that was possible to avoid begins about even, and
// ends as what it is.
const (
	FewestKeys = 3
	StartLeast = .3
	StartMost  = .5
	EndBelow   = .2
)

// Reasons for rejecting an answer.
const (
	NoArray    = "no_array"         // no finished JSON array of objects
	BadEntry   = "bad_entry"        // an element without a whole number as its step, or without a probability
	NotANumber = "not_a_number"     // NaN, null, words
	OutOfRange = "out_of_range"     // a probability outside of 0 to 1, after percentages are read as such
	BadStep    = "no_such_step"     // the trajectory has none of that number
	TooFew     = "too_few_points"   // fewer than FewestKeys different steps
	Monotone   = "never_falls"      // a failure whose probability only rises, or stays
	BadStart   = "start_off_range"  // the first is not StartLeast to StartMost
	BadEnd     = "end_not_low"      // the last is not below EndBelow
	CutOff     = "cut_off"          // NoArray of an answer that met a limit of tokens
	Filtered   = "content_filtered" // the server would not show the answer
)

// Reasons is all of them, in the order of reports.
var Reasons = []string{NoArray, CutOff, Filtered, BadEntry, NotANumber, OutOfRange, BadStep, TooFew, Monotone, BadStart, BadEnd}

// Reject says which rule an answer breaks, in words for whoever gave it.
type Reject struct {
	Reason, Detail string
}

func (r *Reject) Error() string { return r.Reason + ": " + r.Detail }

func reject(reason, format string, a ...any) error {
	return &Reject{reason, fmt.Sprintf(format, a...)}
}

// Read is the key steps of an answer about a failed trajectory of n steps, in order. Of
// two entries for a step the later counts. Numbers may be strings, or percentages: those
// with a sign are, and when any without one is above 1, all without one are; then none of
// them may be a fraction between 0 and 1, since nobody could say which it is. Every error
// is a *Reject.
func Read(answer string, n int) ([]Key, error) {
	entries, found := lastArray(answer)
	if !found {
		return nil, reject(NoArray, "there is no finished JSON array of objects in the answer")
	}
	keys, err := parse(entries)
	if err != nil {
		return nil, err
	}
	byStep := map[int]Key{}
	for _, k := range keys {
		switch {
		case k.Step < 0 || k.Step >= n:
			return nil, reject(BadStep, "step %d: the trajectory has steps 0 to %d", k.Step, n-1)
		case k.P < 0 || k.P > 1:
			return nil, reject(OutOfRange, "step %d: the probability %v is not between 0 and 1", k.Step, k.P)
		}
		byStep[k.Step] = k
	}
	keys = keys[:0]
	for _, k := range byStep {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.Step, b.Step) })
	return keys, calibrated(keys)
}

// calibrated is nil for keys, in order, that keep the rules of a failure.
func calibrated(keys []Key) error {
	if len(keys) < FewestKeys {
		return reject(TooFew, "there are %d different steps; name at least %d", len(keys), FewestKeys)
	}
	falls := false
	for i := 1; i < len(keys); i++ {
		falls = falls || keys[i].P < keys[i-1].P
	}
	first, last := keys[0], keys[len(keys)-1]
	const slack = 1e-9
	switch {
	case !falls:
		return reject(Monotone, "the probability never falls, and yet the trajectory failed; it must fall at the critical mistake")
	case first.P < StartLeast-slack || first.P > StartMost+slack:
		return reject(BadStart, "step %d: the first probability is %v; it must be between %v and %v", first.Step, first.P, StartLeast, StartMost)
	case last.P >= EndBelow-slack:
		return reject(BadEnd, "step %d: the last probability is %v; the trajectory failed, so it must be below %v", last.Step, last.P, EndBelow)
	}
	return nil
}

// parse reads the entries and brings their numbers to one scale.
func parse(entries []map[string]any) ([]Key, error) {
	keys := make([]Key, len(entries))
	var bare []int // entries whose number has no percent sign
	percent := false
	for i, e := range entries {
		step, ok := number(e["step"])
		if !ok || step != math.Trunc(step) || math.Abs(step) > 1e9 {
			return nil, reject(BadEntry, "entry %d: %q must be the number of a step, and is %s", i+1, "step", show(e, "step"))
		}
		raw, there := e["probability"]
		if !there {
			return nil, reject(BadEntry, "entry %d (step %v): it has no %q", i+1, step, "probability")
		}
		p, signed := raw, false
		if s, ok := raw.(string); ok {
			s, signed = strings.CutSuffix(strings.TrimSpace(s), "%")
			p = s
		}
		keys[i].P, ok = number(p)
		if !ok {
			return nil, reject(NotANumber, "step %v: %q must be a number between 0 and 1, and is %s", step, "probability", show(e, "probability"))
		}
		if signed {
			keys[i].P /= 100
		} else {
			bare = append(bare, i)
			percent = percent || keys[i].P > 1
		}
		keys[i].Step = int(step)
		keys[i].Reasoning, _ = e["reasoning"].(string) // nice to have
	}
	if !percent {
		return keys, nil
	}
	for _, i := range bare {
		k := &keys[i]
		if k.P > 100 || k.P > 0 && k.P < 1 {
			return nil, reject(OutOfRange, "step %d: the probability %v; give all of them as fractions between 0 and 1", k.Step, k.P)
		}
		k.P /= 100
	}
	return keys, nil
}

// number is a finite number, also one in a string.
func number(v any) (float64, bool) {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = strings.TrimSpace(v)
	}
	if strings.ContainsAny(s, "xXpP_") { // Go's own ways to write one
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// show is the value of a field for the teacher, who gave it.
func show(e map[string]any, field string) string {
	v, ok := e[field]
	if !ok {
		return "missing"
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > 60 {
		return "something else"
	}
	return string(b)
}
