package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"orchard/internal/sandbox"
)

const priceFile = `
currency: USD
on_demand: {cpu_hour: 0.0316, memory_gib_hour: "0.0042", gpu_hour: 1.5}
spot: {cpu_hour: "0.0063", memory_gib_hour: 0.0008}
`

var costStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// costBox held cpu and memory for so long.
func costBox(id, cpu, memory string, held time.Duration) State {
	return State{Spec: sandbox.Spec{ID: id, CPU: cpu, Memory: memory}, UID: id, Phase: Ended, Reason: ReasonLifetime,
		Created: costStart.Add(-time.Hour), Scheduled: costStart, Ended: costStart.Add(held)}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	p, err := parsePrices([]byte(priceFile))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(st State, f func(*State)) State { f(&st); return st }
	hour := costBox("a", "2", "4Gi", time.Hour)
	for _, c := range []struct {
		name string
		st   State
		want usage
	}{
		{"an hour", hour, usage{cpu: 7200, memory: 4 << 30 * 3600, micros: 2*31600 + 4*4200}},
		{"on spot", edit(hour, func(st *State) { st.Spot = true }), usage{cpu: 7200, memory: 4 << 30 * 3600, micros: 2*6300 + 4*800}},
		{"a GPU", edit(hour, func(st *State) { st.Spec.Placement.GPU = 2 }), usage{cpu: 7200, memory: 4 << 30 * 3600, gpu: 7200, micros: 2*31600 + 4*4200 + 3_000_000}},
		{"a GPU on spot, whose price nobody knows", edit(hour, func(st *State) { st.Spot, st.Spec.Placement.GPU = true, 1 }),
			usage{cpu: 7200, memory: 4 << 30 * 3600, gpu: 3600, unpriced: 1}},
		{"a request below the limit", edit(hour, func(st *State) { st.Spec.Reserve = sandbox.Reserve{CPU: "500m", Memory: "1Gi"} }),
			usage{cpu: 1800, memory: 1 << 30 * 3600, micros: 15800 + 4200}},
		{"never scheduled", edit(hour, func(st *State) { st.Scheduled = time.Time{} }), usage{}},
		{"a moment, rounded", costBox("a", "1", "1Gi", time.Second), usage{cpu: 1, memory: 1 << 30, micros: 10}}, // 9.94
		{"still there", edit(hour, func(st *State) { st.Phase, st.Ended = Ready, time.Time{} }), usage{cpu: 2 * 7200, memory: 4 << 30 * 7200, micros: 2 * (2*31600 + 4*4200)}},
	} {
		if got := p.usage(c.st, time.Time{}, costStart.Add(2*time.Hour)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if u := (prices{}).usage(hour, time.Time{}, costStart.Add(time.Hour)); u.unpriced != 1 || u.micros != 0 {
		t.Errorf("without prices: %+v", u)
	}
	if a := (prices{}).answer(usage{}); a.AmountMicros != nil || a.Currency != nil {
		t.Errorf("without prices: %+v", a)
	}
}

func TestParsePricesRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                       "currency",
		"currency: dollars":                      "three capital letters",
		"currency: USD\non_demand: {cpu: 1}":     `unknown field "cpu"`,
		"currency: USD\nspot: {cpu_hour: -1}":    "spot.cpu_hour: -1 is not a price",
		"currency: USD\nspot: {gpu_hour: cheap}": "is not a price",
		"currency: USD\nspot: [1]":               "cannot unmarshal",
		"currency: [":                            "neither YAML nor JSON",
		"currency: USD\ncurrency: EUR":           "already set",
	} {
		if _, err := parsePrices([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", raw, err, want)
		}
	}
}

// The sums are of the caller's own, by owner and by a label; one unknown price makes a
// sum unknown, never smaller.
func TestCostRoute(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(path, []byte(priceFile), 0o600); err != nil {
		t.Fatal(err)
	}
	owned := func(st State, owner, team string) State {
		st.Spec.Owner, st.Spec.Labels = owner, map[string]string{"team": team}
		return st
	}
	priceless := owned(costBox("c", "1", "1Gi", time.Hour), "", "y")
	priceless.Spot, priceless.Spec.Placement.GPU = true, 1
	m := &memory{states: []State{owned(costBox("a", "1", "1Gi", time.Hour), "", "x"), owned(costBox("b", "2", "1Gi", time.Hour), DefaultOwner, "x"), priceless,
		owned(costBox("d", "1", "1Gi", time.Hour), "other", "x")}}
	set := Defaults()
	set.Keys, set.PricesFile = ParseKeys("k"), path
	s, err := New(m, set)
	if err != nil {
		t.Fatal(err)
	}
	_, body := m.ask(t, s, "GET", "/cost?by_label=team")
	group := func(owner, label any, n, unpriced, cpu, gpu float64, gib float64, micros any) map[string]any {
		g := map[string]any{"sandboxes": n, "unpriced": unpriced, "cpu_seconds": cpu * 3600, "gpu_seconds": gpu * 3600, "memory_byte_seconds": gib * (1 << 30) * 3600,
			"amount_micros": micros, "currency": "USD"}
		if owner != nil {
			g["owner"] = owner
		}
		if label != nil {
			g["label"] = label
		}
		return g
	}
	want := map[string]any{
		"total":    group(nil, nil, 3, 1, 4, 1, 3, nil),
		"by_owner": []any{group("default", nil, 3, 1, 4, 1, 3, nil)},
		"by_label": []any{group(nil, "x", 2, 0, 3, 0, 2, 3*31600.0+2*4200), group(nil, "y", 1, 1, 1, 1, 1, nil)},
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("GET /cost (-want +got):\n%s", diff)
	}
	if _, body = m.ask(t, s, "GET", "/cost?labels=team!=y"); body["total"].(map[string]any)["amount_micros"] != 3*31600.0+2*4200 {
		t.Errorf("the priced: %v", body)
	}
	if status, _ := m.ask(t, s, "GET", "/cost?by_label=a%20b"); status != 422 {
		t.Errorf("a bad label answers %d", status)
	}
	_, view := m.ask(t, s, "GET", "/sandboxes/a")
	if cost := view["cost"].(map[string]any); cost["amount_micros"] != 31600.0+4200 || cost["currency"] != "USD" {
		t.Errorf("the sandbox's own: %v", cost)
	}
}

// Counters grow by what was held since they were last asked, go on when the runtime
// forgets a sandbox, and leave out what was before the service.
func TestCollectorSums(t *testing.T) {
	t.Parallel()
	p, err := parsePrices([]byte(priceFile))
	if err != nil {
		t.Fatal(err)
	}
	now := costStart.Add(30 * time.Minute)
	m := &memory{}
	live := costBox("a", "2", "1Gi", 0)
	live.Phase, live.Ended = Ready, time.Time{}
	m.states = []State{live}
	c := newCollector(m.List, p, func() time.Time { return now })
	collect := func() map[string]string {
		t.Helper()
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, f := range families {
			for _, v := range f.Metric {
				out[f.GetName()] += fmt.Sprintf("%g;", v.GetCounter().GetValue()+float64(v.GetHistogram().GetSampleCount()))
			}
		}
		return out
	}
	expect := func(when, cpu, cost, ready string) {
		t.Helper()
		got := collect()
		if got["orchard_sandbox_cpu_seconds_total"] != cpu || got["orchard_sandbox_cost_total"] != cost || got["orchard_sandbox_ready_seconds"] != ready {
			t.Errorf("%s: cpu %s cost %s ready %s, want %s %s %s", when, got["orchard_sandbox_cpu_seconds_total"], got["orchard_sandbox_cost_total"],
				got["orchard_sandbox_ready_seconds"], cpu, cost, ready)
		}
	}
	expect("at the start, half an hour into a sandbox", "0;", "0;", "0;")
	now = now.Add(30 * time.Minute)
	m.states[0].Ready = now
	expect("half an hour later", "3600;", "0.0337;", "1;")
	expect("again", "3600;", "0.0337;", "1;")
	m.states[0].Phase, m.states[0].Ended = Ended, now.Add(30*time.Minute)
	now = now.Add(2 * time.Hour)
	expect("after its end", "7200;", "0.0674;", "1;")
	m.states = nil
	expect("when it is forgotten", "7200;", "0.0674;", "1;")
}
