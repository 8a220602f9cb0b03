package control

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"orchard/internal/sandbox"
)

// objectName is a Kubernetes object's.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// maxGPU is more than any machine has.
const maxGPU = 64

// placement reads which machines may run a sandbox.
func (b *body) placement() sandbox.Placement {
	p := sandbox.Placement{
		NodeSelector: b.dict("node_selector"), Tolerations: b.tolerations("tolerations"), Spot: b.flag("spot", false),
		RuntimeClass: b.text("runtime_class"), PriorityClass: b.text("priority_class"), PullSecrets: b.list("image_pull_secrets"),
	}
	p.GPU = b.whole("gpu", maxGPU)
	for key, value := range p.NodeSelector {
		if !labelKey.MatchString(key) || !labelText.MatchString(value) {
			b.fault("node_selector", "value_error", "node_selector "+key+" is not a Kubernetes label: up to 63 letters, digits, dots, hyphens and underscores")
		}
	}
	for _, f := range []struct {
		field string
		names []string
	}{{"runtime_class", []string{p.RuntimeClass}}, {"priority_class", []string{p.PriorityClass}}, {"image_pull_secrets", p.PullSecrets}} {
		for _, name := range f.names {
			if b.get(f.field) != nil && !objectName.MatchString(name) {
				b.fault(f.field, "value_error", fmt.Sprintf("%s: %q is not the name of a Kubernetes object", f.field, name))
			}
		}
	}
	return p
}

// whole is a number from 0, which it is when absent, to most.
func (b *body) whole(field string, most int) int {
	if b.get(field) == nil {
		return 0
	}
	n, err := strconv.ParseFloat(b.text(field), 64)
	if err != nil || n < 0 || n > float64(most) || n != math.Trunc(n) {
		b.fault(field, "value_error", fmt.Sprintf("%s must be a whole number from 0 to %d", field, most))
		return 0
	}
	return int(n)
}

func (b *body) tolerations(field string) []sandbox.Toleration {
	raw := b.get(field)
	if raw == nil {
		return nil
	}
	var items []map[string]json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		b.fault(field, "type_error.list", "value is not a list of {key, operator, value, effect}")
		return nil
	}
	var out []sandbox.Toleration
	for i, item := range items {
		sub := &body{fields: item}
		t := sandbox.Toleration{Key: sub.text("key"), Operator: sub.text("operator"), Value: sub.text("value"), Effect: sub.text("effect")}
		if t.Operator == "" {
			t.Operator = "Equal"
		}
		switch {
		case t.Operator != "Equal" && t.Operator != "Exists":
			sub.fault("operator", "value_error", "operator must be Equal or Exists")
		case t.Operator == "Exists" && t.Value != "":
			sub.fault("value", "value_error", "operator Exists takes no value")
		case t.Key == "" && t.Operator != "Exists":
			sub.fault("key", "value_error", "only operator Exists goes without a key")
		case t.Key != "" && !labelKey.MatchString(t.Key):
			sub.fault("key", "value_error", "key is not a Kubernetes label's")
		case !labelText.MatchString(t.Value):
			sub.fault("value", "value_error", "value is not a Kubernetes label's")
		case !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect):
			sub.fault("effect", "value_error", "effect must be NoSchedule, PreferNoSchedule, NoExecute or absent")
		}
		for _, f := range sub.faults {
			f.Loc = []any{"body", field, i, f.Loc[1]}
			b.faults = append(b.faults, f)
		}
		out = append(out, t)
	}
	return out
}

// placementFields is p by the names that its fields have in requests.
func placementFields(p sandbox.Placement) []field {
	return []field{
		{"gpu", p.GPU}, {"node_selector", p.NodeSelector}, {"tolerations", p.Tolerations}, {"runtime_class", p.RuntimeClass},
		{"priority_class", p.PriorityClass}, {"image_pull_secrets", p.PullSecrets}, {"spot", p.Spot},
	}
}

// field is one of a spec's, by its name in requests.
type field struct {
	name  string
	value any
}

// text is a value that is equal for equal fields; what is empty is as good as absent.
func (f field) text() string { return fmt.Sprint(f.value) }

// placementRules is the fields that keys without admin may set: a name, or NAME=VALUE
// for one value of it (of node_selector and tolerations: for one key).
type placementRules []string

// closed are the fields that say which machine runs a sandbox, before whom, and with whose
// registry password: each reaches beyond the sandbox, so an operator must name them.
// The others only ask for more of the same.
var closed = []string{"node_selector", "tolerations", "priority_class", "image_pull_secrets", "runtime_class"}

func (rules placementRules) validate() error {
	for _, rule := range rules {
		if name, _, _ := strings.Cut(rule, "="); !slices.Contains(closed, name) {
			return fmt.Errorf("%q is none of %s", rule, strings.Join(closed, ", "))
		}
	}
	return nil
}

// check is a failure when spec has a field that c may not set.
func (rules placementRules) check(c caller, spec sandbox.Spec) error {
	if c.admin {
		return nil
	}
	used := map[string][]string{}
	p := spec.Placement
	for key := range p.NodeSelector {
		used["node_selector"] = append(used["node_selector"], key)
	}
	for _, t := range p.Tolerations {
		used["tolerations"] = append(used["tolerations"], t.Key)
	}
	used["image_pull_secrets"] = p.PullSecrets
	if p.PriorityClass != "" {
		used["priority_class"] = []string{p.PriorityClass}
	}
	if p.RuntimeClass != "" {
		used["runtime_class"] = []string{p.RuntimeClass}
	}
	f := &failure{status: http.StatusUnprocessableEntity, refused: true}
	for _, name := range closed {
		for _, value := range used[name] {
			if !slices.Contains(rules, name) && !slices.Contains(rules, name+"="+value) {
				f.invalid = append(f.invalid, invalid{[]any{"body", name},
					fmt.Sprintf("%s %q is for admin keys, unless the service allows it by --allow-placement", name, value), "value_error"})
				break
			}
		}
	}
	if len(f.invalid) == 0 {
		return nil
	}
	return f
}
