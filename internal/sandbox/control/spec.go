package control

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

	"orchard/internal/quantity"
	"orchard/internal/sandbox"
)

var (
	imageRule = regexp.MustCompile(`^[^\s\x00-\x1f\x7f]{1,512}$`)
	labelKey  = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelText = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// parseSpec is the sandbox that a create asks for, with the service's defaults. Its ID
// is "" when the caller leaves the choice.
func parseSpec(b *body, set Settings) (sandbox.Spec, error) {
	b.required("image")
	spec := sandbox.Spec{
		ID: b.text("sandbox_id"), Image: b.text("image"), CPU: b.text("cpu"), Memory: b.text("memory"),
		OpenNetwork: !b.flag("block_network", true), ReadyTimeout: b.seconds("timeout", set.MaxTimeout),
		Env: b.environ("env"), Workdir: b.text("workdir"), Labels: b.dict("labels"),
		Lifetime: b.seconds("lifetime_seconds", maxDuration), Lease: b.seconds("lease_seconds", maxDuration),
		Reserve: sandbox.Reserve{CPU: b.text("cpu_request"), Memory: b.text("memory_request")},
		Disk:    b.text("disk"), Placement: b.placement(), Egress: b.egressRules("egress"),
	}
	if b.get("image") != nil && !imageRule.MatchString(spec.Image) {
		b.fault("image", "value_error", "image must be \"host\" or an image reference without spaces, up to 512 characters")
	}
	if b.get("sandbox_id") != nil && !sandboxID.MatchString(spec.ID) {
		b.fault("sandbox_id", "value_error.str.regex", sandboxIDRule)
	}
	b.quantities(&spec, set)
	if spec.OpenNetwork && len(spec.Egress) > 0 {
		b.fault("egress", "value_error", "egress opens single things to a sandbox with block_network true; here everything is open")
	}
	if spec.Workdir != "" && (!path.IsAbs(spec.Workdir) || strings.ContainsRune(spec.Workdir, 0)) {
		b.fault("workdir", "value_error", "workdir must be an absolute path")
	}
	for key, value := range spec.Labels {
		if !labelKey.MatchString(key) || !labelText.MatchString(value) {
			b.fault("labels", "value_error", "label "+key+" is not a Kubernetes label: up to 63 letters, digits, dots, hyphens and underscores")
		}
	}
	if spec.ReadyTimeout == 0 {
		spec.ReadyTimeout = time.Hour
	}
	if spec.Lifetime == 0 {
		spec.Lifetime = set.DefaultLifetime
	}
	if spec.Workdir == "" {
		spec.Workdir = set.DefaultWorkdir
	}
	return spec, b.err()
}

// quantities checks how much spec asks for, and fills in what it does not say.
func (b *body) quantities(spec *sandbox.Spec, set Settings) {
	if spec.CPU == "" {
		spec.CPU = set.DefaultCPU
	}
	if spec.Memory == "" {
		spec.Memory = set.DefaultMemory
	}
	for _, q := range []struct{ field, value, limit, limitField string }{
		{"cpu", spec.CPU, "", ""}, {"memory", spec.Memory, "", ""}, {"disk", spec.Disk, "", ""},
		{"cpu_request", spec.Reserve.CPU, spec.CPU, "cpu"}, {"memory_request", spec.Reserve.Memory, spec.Memory, "memory"},
	} {
		if q.value == "" {
			continue
		}
		v, err := quantity.Parse(q.value)
		if err != nil {
			b.fault(q.field, "value_error", err.Error())
		} else if most, err := quantity.Parse(q.limit); err == nil && v > most {
			b.fault(q.field, "value_error", fmt.Sprintf("%s %s is over %s, which is %s", q.field, q.value, q.limitField, q.limit))
		}
	}
}

// environ is a map of environment variables.
func (b *body) environ(field string) map[string]string {
	env := b.dict(field)
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			b.fault(field, "value_error", "a name must not be empty or hold '=', and neither name nor value may hold NUL")
			break
		}
	}
	return env
}

// difference names a field in which the sandboxes of two specs would differ, "" for
// none. How long the caller was ready to wait is not one.
func difference(a, b sandbox.Spec) string {
	same := func(x, y string) bool {
		p, errX := quantity.Parse(x)
		q, errY := quantity.Parse(y)
		return x == y || errX == nil && errY == nil && p == q
	}
	reserve := func(request, limit string) string { // absent is the limit
		if request == "" {
			return limit
		}
		return request
	}
	type compared struct {
		name  string
		equal bool
	}
	fields := []compared{
		{"image", a.Image == b.Image},
		{"cpu", same(a.CPU, b.CPU)},
		{"memory", same(a.Memory, b.Memory)},
		{"block_network", a.OpenNetwork == b.OpenNetwork},
		{"egress", (a.Egress == nil) == (b.Egress == nil) && fmt.Sprint(a.Egress) == fmt.Sprint(b.Egress)},
		{"env", maps.Equal(a.Env, b.Env)},
		{"workdir", a.Workdir == b.Workdir},
		{"labels", maps.Equal(a.Labels, b.Labels)},
		{"lifetime_seconds", a.Lifetime == b.Lifetime},
		{"lease_seconds", a.Lease == b.Lease},
		{"cpu_request", same(reserve(a.Reserve.CPU, a.CPU), reserve(b.Reserve.CPU, b.CPU))},
		{"memory_request", same(reserve(a.Reserve.Memory, a.Memory), reserve(b.Reserve.Memory, b.Memory))},
		{"disk", same(a.Disk, b.Disk)},
	}
	other := placementFields(b.Placement)
	for i, f := range placementFields(a.Placement) {
		fields = append(fields, compared{f.name, f.text() == other[i].text()})
	}
	for _, f := range fields {
		if !f.equal {
			return f.name
		}
	}
	return ""
}

// idempotencyKey is the caller's own name for this request, "" for none.
func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return "", invalidField("header", "Idempotency-Key", "value_error", "Idempotency-Key must be at most 255 characters")
	}
	return key, nil
}
