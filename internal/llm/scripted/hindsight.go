package scripted

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"orchard/internal/llm"
)

// lookBack is how a question about a failed rollout says which steps it has: the one of
// the credit stage, whose test asks it here.
var lookBack = regexp.MustCompile(`"step", a number from 0 to (\d+); "probability"`)

// hindsight answers a question that is not about the next step but about all of a
// rollout: how likely success was at its key steps. It is made up, from the seed: a rise
// to some step, and a fall after it.
func hindsight(r llm.Request, seed int64) (resp llm.Response, ok bool) {
	var last int
	for _, m := range r.Messages {
		if found := lookBack.FindAllStringSubmatch(m.Content, -1); m.Role == "user" && found != nil {
			n, err := strconv.Atoi(found[len(found)-1][1]) // the trajectory before it may hold anything
			last, ok = n, err == nil
		}
	}
	if !ok || last < 2 {
		return resp, false
	}
	peak := 1 + int(uint64(seed)%uint64(min(last-1, 6)))
	var points []string
	for _, p := range []struct {
		step int
		p    float64
		why  string
	}{{0, .4, "The task is read."}, {peak, .4 + .07*float64(peak), "The cause is found."}, {last, .05, "Critical mistake: what is handed in does not solve it."}} {
		points = append(points, fmt.Sprintf(`{"step": %d, "probability": %.2f, "reasoning": %q}`, p.step, p.p, p.why))
	}
	resp.FinishReason = "stop"
	resp.Message = llm.Message{Role: "assistant", Content: "[" + strings.Join(points, ", ") + "]"}
	return resp, true
}
