// Package oracle is a slow, plain reference of credit assignment, for tests only: it follows
// the definitions word by word over one boolean a step, and shares no code with the stage.
// It is not fast, and checks no input: key steps are in range, and each is there once.
package oracle

// Tolerance is what a comparison with epsilon forgives: 0.35-0.30 is not quite 0.05.
const Tolerance = 1e-9

// Key is one annotated step, counted from 0, and its probability.
type Key struct {
	Step int
	P    float64
}

// By is how a rise is found.
type By int

// The ways: step by step along the line, or a whole interval between two key steps, by its
// mean rise a step or by its total rise.
const (
	ByStep By = iota
	ByIntervalMean
	ByIntervalTotal
)

// Options are the choices that the definition leaves open.
type Options struct {
	Epsilon float64
	By      By
	After   bool // the probability at a step is that after its action, not before it
	Last    bool // the action at the end of a rise, t_j, is trained too
	Gap     int  // rises with at most so many steps between them are one
	Pad     int  // so many steps more on either side of a rise
	// GapToEnd counts the gap from t_j, the end of the rise, though its action may not be
	// trained; else from the last trained action.
	GapToEnd bool
	// PadFirst pads before it merges, so that the gap is between padded rises.
	PadFirst bool
}

// Values is V on all n steps: the line between the key steps around a step, the nearest key
// step's value outside them.
func Values(keys []Key, n int) []float64 {
	v := make([]float64, n)
	for t := range v {
		var left, right *Key
		for i := range keys {
			if keys[i].Step <= t && (left == nil || keys[i].Step > left.Step) {
				left = &keys[i]
			}
			if keys[i].Step >= t && (right == nil || keys[i].Step < right.Step) {
				right = &keys[i]
			}
		}
		switch {
		case left == nil && right == nil:
		case left == nil:
			v[t] = right.P
		case right == nil || left.Step == right.Step:
			v[t] = left.P
		default:
			share := float64(t-left.Step) / float64(right.Step-left.Step)
			v[t] = (1-share)*left.P + share*right.P
		}
	}
	return v
}

// Credits is c_t = V(s_t+1) - V(s_t), for all steps that have a next one.
func Credits(v []float64) []float64 {
	var c []float64
	for t := 0; t+1 < len(v); t++ {
		c = append(c, v[t+1]-v[t])
	}
	return c
}

// rises says of each step t whether the way from t to t+1 belongs to a rise.
func rises(keys []Key, n int, o Options) []bool {
	up := make([]bool, n)
	if o.By == ByStep {
		for t, c := range Credits(Values(keys, n)) {
			up[t] = c >= o.Epsilon-Tolerance
		}
		return up
	}
	for _, a := range keys {
		for _, b := range keys {
			if b.Step <= a.Step || between(keys, a.Step, b.Step) {
				continue
			}
			need := o.Epsilon
			if o.By == ByIntervalMean {
				need = o.Epsilon * float64(b.Step-a.Step)
			}
			for t := a.Step; t < b.Step; t++ {
				up[t] = b.P-a.P >= need-Tolerance
			}
		}
	}
	return up
}

// between reports whether a key step lies strictly between two steps.
func between(keys []Key, a, b int) bool {
	for _, k := range keys {
		if a < k.Step && k.Step < b {
			return true
		}
	}
	return false
}

// Segments are the maximal [i, j] such that every t in [i, j-1] rises.
func Segments(keys []Key, n int, o Options) [][2]int {
	up := rises(keys, n, o)
	all := func(i, j int) bool {
		if i < 0 || j >= n {
			return false
		}
		for t := i; t <= j-1; t++ {
			if !up[t] {
				return false
			}
		}
		return true
	}
	var found [][2]int
	for i := range n {
		for j := i + 1; j < n; j++ {
			if all(i, j) && !all(i-1, j) && !all(i, j+1) {
				found = append(found, [2]int{i, j})
			}
		}
	}
	return found
}

// Trained says of each of n actions whether it is inside a rise. The work is done on a strip
// wider than the trajectory, so that no order of the rules meets its ends.
func Trained(keys []Key, n int, o Options) []bool {
	margin := o.Gap + o.Pad + 4
	strip := make([]bool, n+2*margin)
	ends := make([]bool, len(strip)) // t_j of a rise
	shift := margin
	if o.After {
		shift++
	}
	for _, s := range Segments(keys, n, o) {
		for t := s[0]; t <= s[1]; t++ {
			if t < s[1] || o.Last {
				strip[t+shift] = true
			}
		}
		ends[s[1]+shift] = true
	}
	if o.PadFirst {
		strip = merged(padded(strip, o.Pad), nil, o.Gap)
	} else {
		if !o.GapToEnd {
			ends = nil
		}
		strip = padded(merged(strip, ends, o.Gap), o.Pad)
	}
	return strip[margin : margin+n]
}

// merged fills every gap of at most so many steps that has a trained step on both sides. A
// step in ends is no part of the gap, though it may not be trained.
func merged(in, ends []bool, gap int) []bool {
	out := append([]bool(nil), in...)
	for a := range in {
		for b := a + 1; b < len(in); b++ {
			if !in[a] || !in[b] {
				continue
			}
			free, inside := 0, false
			for t := a + 1; t < b; t++ {
				inside = inside || in[t]
				if ends == nil || !ends[t] {
					free++
				}
			}
			for t := a + 1; t < b && !inside && free <= gap; t++ {
				out[t] = true
			}
		}
	}
	return out
}

// padded trains every step at most so many steps from a trained one.
func padded(in []bool, pad int) []bool {
	out := make([]bool, len(in))
	for t := range in {
		for u := range in {
			if in[u] && u-t <= pad && t-u <= pad {
				out[t] = true
			}
		}
	}
	return out
}

// Message is what the mask must know of a message: whether it is an action of the model, and
// of which step, counted from 0.
type Message struct {
	Action bool
	Step   int
}

// Mask says of each message whether it bears loss: of a resolved trajectory all actions, else
// the actions inside a rise; nothing else ever.
func Mask(messages []Message, resolved bool, trained []bool) []bool {
	mask := make([]bool, len(messages))
	for i, m := range messages {
		if m.Action && (resolved || trained[m.Step]) {
			mask[i] = true
		}
	}
	return mask
}
