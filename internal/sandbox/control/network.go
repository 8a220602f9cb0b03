package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/egress"
)

// egressRules reads what to open: a list of {cidr | domain, ports, seconds}. Nil is
// absent.
func (b *body) egressRules(field string) []sandbox.EgressRule {
	raw := b.get(field)
	if raw == nil {
		return nil
	}
	var items []map[string]json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		b.fault(field, "type_error.list", "value is not a list of {cidr or domain, ports, seconds}")
		return nil
	}
	if len(items) > sandbox.MaxEgressRules {
		b.fault(field, "value_error", fmt.Sprintf("%d rules are over the %d that a sandbox can have", len(items), sandbox.MaxEgressRules))
		return nil
	}
	rules := make([]sandbox.EgressRule, 0, len(items))
	for i, item := range items {
		sub := &body{fields: item}
		r := sandbox.EgressRule{CIDR: sub.text("cidr"), Domain: sub.text("domain"), For: sub.seconds("seconds", maxDuration)}
		for _, text := range sub.list("ports") {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil || n == 0 {
				sub.fault("ports", "value_error", fmt.Sprintf("%q is not a port from 1 to %d", text, math.MaxUint16))
				continue
			}
			r.Ports = append(r.Ports, uint16(n))
		}
		for _, f := range sub.faults {
			f.Loc = append([]any{"body", field, i}, f.Loc[1:]...)
			b.faults = append(b.faults, f)
		}
		if err := r.Validate(); err != nil && len(sub.faults) == 0 {
			b.faults = append(b.faults, invalid{Loc: []any{"body", field, i}, Msg: err.Error(), Type: "value_error"})
		}
		rules = append(rules, r)
	}
	return rules
}

// networkView is what is open to a sandbox, as clients see it.
type networkView struct {
	SandboxID    string       `json:"sandbox_id"`
	BlockNetwork bool         `json:"block_network"`
	Generation   int64        `json:"generation"`
	Proxy        bool         `json:"proxy"` // programs were told of the egress proxy
	Egress       []egressView `json:"egress"`
}

// egressView is a rule as clients see it. One that is over says open: false.
type egressView struct {
	CIDR      string   `json:"cidr,omitempty"`
	Domain    string   `json:"domain,omitempty"`
	Ports     []uint16 `json:"ports,omitempty"`
	ExpiresAt *float64 `json:"expires_at,omitempty"`
	Open      bool     `json:"open"`
}

func (s *Service) networkView(st State) networkView {
	v := networkView{SandboxID: st.Spec.ID, BlockNetwork: !st.Spec.OpenNetwork, Generation: st.Network.Generation, Proxy: st.Network.Proxy,
		Egress: []egressView{}}
	for _, r := range st.Network.Rules {
		v.Egress = append(v.Egress, egressView{r.CIDR, r.Domain, r.Ports, epoch(r.Until()), ruleOpen(r, s.now())})
	}
	return v
}

func ruleOpen(r egress.Rule, now time.Time) bool {
	return r.UntilUS == 0 || now.UnixMicro() < r.UntilUS
}

func (s *Service) getNetwork(w http.ResponseWriter, r *http.Request) error {
	st, err := s.look(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.networkView(st))
	return nil
}

// putNetwork makes a list of rules all that a sandbox may reach.
func (s *Service) putNetwork(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	b.required("egress")
	rules := b.egressRules("egress")
	if err := b.err(); err != nil {
		return err
	}
	st, err := s.look(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if st.Spec.OpenNetwork {
		return fail(http.StatusConflict, "Sandbox %s was made with block_network false: its network is open and rules would change nothing", st.Spec.ID)
	}
	st, err = s.runtime.SetEgress(r.Context(), st.Spec.ID, rules)
	switch {
	case errors.Is(err, ErrNotFound):
		return unknownSandbox(r.PathValue("id"))
	case told(err):
		return err
	case err != nil:
		return away(5, "the network of sandbox %s could not be changed: %v", r.PathValue("id"), err)
	}
	writeJSON(w, http.StatusOK, s.networkView(st))
	return nil
}

// egressRules is which private networks may be opened to a sandbox, and by whom.
type egressRules struct{ closed, allowed []netip.Prefix }

func newEgressRules(set Settings) egressRules {
	return egressRules{append(egress.Special(), set.ClosedNetworks...), set.AllowEgress}
}

// check is a refusal of the first rule that names addresses in a private network which c may
// not open. A wider rule opens nothing in there, so it is as good as any.
func (e egressRules) check(c caller, image string, rules []sandbox.EgressRule) error {
	for _, r := range rules {
		p, err := r.Prefix()
		if err != nil || c.admin || within(p, e.allowed) || !within(p, e.closed) {
			continue
		}
		return &sandbox.Refused{Image: image, Reason: fmt.Sprintf("egress: %s is in a private network: that is for admin keys, unless the service allows it by --allow-egress", r.CIDR)}
	}
	return nil
}

// within reports whether p lies in one of ranges.
func within(p netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Contains(p.Addr()) })
}

// mayOpen is why rules are not opened to a sandbox of spec for c.
func (t *tenants) mayOpen(c caller, spec sandbox.Spec, rules []sandbox.EgressRule) error {
	if _, ok := t.runtime.(Networker); !ok && len(rules) > 0 {
		return &sandbox.Refused{Image: spec.Image, Reason: "egress: this service opens nothing to single sandboxes"}
	}
	return t.egress.check(c, spec.Image, rules)
}

// SetEgress implements Networker.
func (t *tenants) SetEgress(ctx context.Context, id string, rules []sandbox.EgressRule) (State, error) {
	st, err := t.Get(ctx, id)
	if err != nil {
		return st, err
	}
	c, _ := callerOf(ctx)
	if err := t.mayOpen(c, st.Spec, rules); err != nil {
		return st, err
	}
	rt, ok := t.runtime.(Networker)
	if !ok {
		return st, nil // nothing is to be opened, and nothing is open
	}
	return rt.SetEgress(ctx, id, rules)
}
