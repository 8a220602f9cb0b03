package control

import (
	"maps"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

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
	}
	if b.get("image") != nil && !imageRule.MatchString(spec.Image) {
		b.fault("image", "value_error", "image must be \"host\" or an image reference without spaces, up to 512 characters")
	}
	if b.get("sandbox_id") != nil && !sandboxID.MatchString(spec.ID) {
		b.fault("sandbox_id", "value_error.str.regex", sandboxIDRule)
	}
	for _, q := range []struct {
		field, absent string
		value         *string
	}{{"cpu", set.DefaultCPU, &spec.CPU}, {"memory", set.DefaultMemory, &spec.Memory}} {
		if *q.value == "" {
			*q.value = q.absent
		} else if _, err := ParseQuantity(*q.value); err != nil {
			b.fault(q.field, "value_error", err.Error())
		}
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
		p, errX := ParseQuantity(x)
		q, errY := ParseQuantity(y)
		return x == y || errX == nil && errY == nil && p == q
	}
	for _, f := range []struct {
		name  string
		equal bool
	}{
		{"image", a.Image == b.Image},
		{"cpu", same(a.CPU, b.CPU)},
		{"memory", same(a.Memory, b.Memory)},
		{"block_network", a.OpenNetwork == b.OpenNetwork},
		{"env", maps.Equal(a.Env, b.Env)},
		{"workdir", a.Workdir == b.Workdir},
		{"labels", maps.Equal(a.Labels, b.Labels)},
		{"lifetime_seconds", a.Lifetime == b.Lifetime},
		{"lease_seconds", a.Lease == b.Lease},
	} {
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
