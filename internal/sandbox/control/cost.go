package control

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// costAnswer is what one sandbox or many cost. An amount of which a part is not known is
// not known.
type costAnswer struct {
	CPUSeconds        float64 `json:"cpu_seconds"`
	MemoryByteSeconds float64 `json:"memory_byte_seconds"`
	GPUSeconds        float64 `json:"gpu_seconds"`
	AmountMicros      *int64  `json:"amount_micros"` // millionths of the currency
	Currency          *string `json:"currency"`
}

func (p prices) answer(u usage) costAnswer {
	a := costAnswer{CPUSeconds: u.cpu, MemoryByteSeconds: u.memory, GPUSeconds: u.gpu}
	if p.currency != "" {
		a.Currency = &p.currency
		if u.unpriced == 0 {
			a.AmountMicros = &u.micros
		}
	}
	return a
}

// costGroup is the sum of some sandboxes.
type costGroup struct {
	Owner     string  `json:"owner,omitempty"`
	Label     *string `json:"label,omitempty"` // the value of the label that was asked for
	Sandboxes int     `json:"sandboxes"`
	Unpriced  int     `json:"unpriced"` // of them, how many have no known price
	costAnswer
}

type costSum struct {
	usage
	sandboxes int
}

// cost sums what the sandboxes that are, or ended lately, cost: in all, by owner, and by
// the values of one label.
func (s *Service) cost(w http.ResponseWriter, r *http.Request) error {
	want, err := parseFilter(r.URL.Query())
	if err != nil {
		return err
	}
	label := r.URL.Query().Get("by_label")
	if label != "" && !labelKey.MatchString(label) {
		return invalidField("query", "by_label", "value_error", "%q is not a label's name", label)
	}
	states, err := s.runtime.List(r.Context())
	if err != nil {
		return away(5, "sandboxes could not be listed: %v", err)
	}
	now := s.now()
	var total costSum
	owners, labels := map[string]*costSum{}, map[string]*costSum{}
	count := func(m map[string]*costSum, key string, u usage) {
		if m[key] == nil {
			m[key] = &costSum{}
		}
		m[key].add(u)
		m[key].sandboxes++
	}
	for _, st := range states {
		if !want.match(st) {
			continue
		}
		u := s.prices.usage(st, time.Time{}, now)
		total.add(u)
		total.sandboxes++
		count(owners, ownerOf(st), u)
		if label != "" {
			count(labels, st.Spec.Labels[label], u)
		}
	}
	answer := struct {
		Total   costGroup   `json:"total"`
		ByOwner []costGroup `json:"by_owner"`
		ByLabel []costGroup `json:"by_label"`
	}{s.group(&total), s.groups(owners), s.groups(labels)}
	for i := range answer.ByLabel { // it was grouped by value
		g := &answer.ByLabel[i]
		g.Label, g.Owner = ptr(g.Owner), ""
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (s *Service) group(c *costSum) costGroup {
	return costGroup{Sandboxes: c.sandboxes, Unpriced: c.unpriced, costAnswer: s.prices.answer(c.usage)}
}

// groups is m sorted by its keys, which are owners.
func (s *Service) groups(m map[string]*costSum) []costGroup {
	out := make([]costGroup, 0, len(m))
	for key, c := range m {
		g := s.group(c)
		g.Owner = key
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b costGroup) int { return cmp.Compare(a.Owner, b.Owner) })
	return out
}
