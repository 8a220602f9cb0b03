package simulate

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orchard/internal/bar"
	"orchard/internal/exit"
	"orchard/internal/runner"
)

func simulated(t testing.TB, change func(*Config)) *Report {
	t.Helper()
	c := Defaults()
	change(&c)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	rates, err := readRates(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Simulate(t.Context(), c, rates)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func result(t testing.TB, r *Report, strategy string) Result {
	t.Helper()
	for _, s := range r.Results {
		if s.Strategy == strategy {
			return s
		}
	}
	t.Fatalf("no %s", strategy)
	return Result{}
}

// The reference's table, from the command's own figures and within their own errors.
func TestTable(t *testing.T) {
	t.Parallel()
	r := simulated(t, func(c *Config) { c.Rates, c.Prompts = "0.02,0.05,0.1,0.2,0.3,0.5,0.7,0.9", 8_000 })
	for i, row := range []struct{ p, strict, fixed, s8, s4, s2 float64 }{
		{.02, .004, .149, 16.0, 16.0, 16.0},
		{.05, .043, .337, 16.0, 15.9, 15.9},
		{.10, .211, .570, 15.7, 15.4, 15.2},
		{.20, .648, .832, 14.4, 13.4, 13.0},
		{.30, .901, .942, 12.5, 11.3, 10.7},
		{.50, .996, .992, 10.3, 9.3, 8.9},
		{.70, .901, .942, 12.5, 11.3, 10.7},
		{.90, .211, .570, 15.7, 15.4, 15.2},
	} {
		near := func(what string, got, off, want, digit float64) {
			t.Helper()
			if math.Abs(got-want) > 4*off+digit/2 {
				t.Errorf("p=%v, %s: %.4f ±%.4f, want %v", row.p, what, got, off, want)
			}
		}
		for _, name := range []string{"fixed-8", "dapo-8"} {
			f := result(t, r, name).ByRate[i]
			near(name, f.Acceptance, math.Sqrt(row.fixed*(1-row.fixed)/1000), row.fixed, .001)
		}
		for name, generated := range map[string]float64{"bar-s16": 16, "bar-s8": row.s8, "bar-s4": row.s4, "bar-s2": row.s2} {
			b := result(t, r, name).ByRate[i]
			if b.From != row.p || b.Prompts != 1000 {
				t.Fatalf("%+v", b)
			}
			near(name+" balanced", b.BalancedShare, math.Sqrt(row.strict*(1-row.strict)/1000), row.strict, .001)
			near(name+" generated", b.RolloutsPrompt, b.RolloutsPromptError, generated, .1)
		}
	}
	// The released launcher on a coin: 1 to 3 of the first 8, or 5 to 7, still make 4.
	l := simulated(t, func(c *Config) {
		c.BAR, _ = bar.Preset(bar.PresetLauncher)
		c.Rates, c.Prompts, c.Strategies = "0.5", 4000, "bar:8"
	})
	if got, want := l.Results[0].Acceptance, 1-2.0/256; math.Abs(got-want) > .007 || l.Results[0].RolloutsPrompt != 8 {
		t.Errorf("%v of %v", got, want)
	}
}

// Signals of groups that can only be one thing.
func TestSignals(t *testing.T) {
	t.Parallel()
	r := simulated(t, func(c *Config) {
		c.BAR.N, c.BAR.NMax, c.BAR.Lo, c.BAR.Hi = 2, 2, .5, .5
		c.Rates, c.Prompts, c.Advantage.DDof = "0.5", 8000, 0
	})
	f := r.Results[0]
	if math.Abs(f.Acceptance-.5) > .03 || *f.Positives != .5 || *f.Variance != .25 || math.Abs(*f.MeanAdvantage-1) > 1e-5 || f.Balanced != f.Groups {
		t.Errorf("%+v", f)
	}
	if want := 2 / f.Acceptance; math.Abs(*f.RolloutsGroup-want) > 1e-9 {
		t.Errorf("%v rollouts a group, want %v", *f.RolloutsGroup, want)
	}
	// The error of a ratio: of 2/x it is 2/x² times that of x.
	if want := 2 / f.Acceptance / f.Acceptance * f.AcceptanceError; math.Abs(*f.RolloutsGroupError/want-1) > 1e-6 {
		t.Errorf("error %v, want %v", *f.RolloutsGroupError, want)
	}
	if f.Dropped[bar.NoPositive]+f.Dropped[bar.NoVariance] != f.Prompts-f.Groups {
		t.Errorf("%+v", f.Dropped)
	}
}

// Rollouts without a reward, and truncated ones, as the reading has it.
func TestShares(t *testing.T) {
	t.Parallel()
	base := func(c *Config) { c.Rates, c.Prompts, c.Strategies = "0.5", 4000, "fixed,bar:16" }
	for _, c := range []struct {
		infra, truncated float64
		usable           bool
		want             float64 // probability that a rollout can be trained on
	}{{.05, 0, false, .95}, {0, .1, false, .9}, {.05, .1, false, .855}, {0, .1, true, 1}, {.05, .1, true, .95}} {
		r := simulated(t, func(x *Config) {
			base(x)
			x.BAR.TruncatedUsable = c.usable
			x.Infra, x.Truncated = runner.Share(c.infra), runner.Share(c.truncated)
		})
		// 8 usable of which not all are alike.
		want := math.Pow(c.want, 8) * (1 - 2*math.Pow(.5, 8))
		if f := r.Results[0]; math.Abs(f.Acceptance-want) > .03 {
			t.Errorf("%+v: fixed %.3f, want %.3f", c, f.Acceptance, want)
		}
		if b := r.Results[1]; b.Acceptance < .98 {
			t.Errorf("%+v: bar %.3f", c, b.Acceptance)
		}
	}
	all := simulated(t, func(c *Config) { base(c); c.Infra = 1 })
	for _, s := range all.Results {
		if s.Groups != 0 || s.RolloutsGroup != nil || s.Dropped[bar.NoneUsable] != s.Prompts {
			t.Errorf("all unknown: %+v", s)
		}
	}
	for _, out := range [][]byte{all.table(), all.csv(), all.svg()} {
		if bytes.Contains(out, []byte("NaN")) || bytes.Contains(out, []byte("Inf")) {
			t.Errorf("not a number:\n%s", out)
		}
	}
	// Of one seed the outcomes are the same, whatever else is set.
	a, b := simulated(t, base), simulated(t, func(c *Config) { base(c); c.Strategies = "bar:16" })
	if a.Results[1].Groups != b.Results[0].Groups || *a.Results[1].Positives != *b.Results[0].Positives {
		t.Error("the set of strategies changes what is drawn")
	}
}

// Batches against a walk over prompts one by one.
func TestFill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := bar.Refill{Want: rapid.IntRange(1, 5).Draw(t, "want"), Start: rapid.IntRange(1, 7).Draw(t, "start"),
			Rounds: rapid.IntRange(0, 3).Draw(t, "rounds"), Whole: rapid.Bool().Draw(t, "whole")}
		gave := rapid.SliceOfN(rapid.Bool(), 0, 60).Draw(t, "gave")
		used := make([]int, len(gave))
		for i := range used {
			used[i] = i%3 + 1
		}
		var want Batches
		var rounds, trained, rollouts, groups, spent, done, togo int
		begin := func() { groups, spent, done, togo = 0, 0, 1, r.Start }
		begin()
		for i := range gave {
			if togo > len(gave)-i {
				togo = len(gave) - i // a last round is what is left
			}
			spent += used[i]
			if gave[i] {
				groups++
			}
			if togo--; togo > 0 {
				continue
			}
			full := groups >= r.Want
			if full || done == r.Rounds {
				want.Batches++
				if full {
					want.Full++
				}
				rounds, rollouts, trained = rounds+done, rollouts+spent, trained+min(groups, r.Want)
				begin()
				continue
			}
			done++
			togo = r.Start
			if !r.Whole {
				togo = int(math.Ceil(float64(r.Start) * float64(r.Want-groups) / float64(r.Want)))
			}
		}
		got := fill(r, used, gave)
		if got.Batches != want.Batches || got.Full != want.Full {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got.Batches > 0 && math.Abs(got.Rounds*float64(got.Batches)-float64(rounds)) > 1e-9 {
			t.Fatalf("%v rounds of %d batches, want %d", got.Rounds, got.Batches, rounds)
		}
		if trained > 0 && math.Abs(*got.RolloutsTrained*float64(trained)-float64(rollouts)) > 1e-9 {
			t.Fatalf("%v, want %d/%d", *got.RolloutsTrained, rollouts, trained)
		}
	})
}

// Whatever is set, the same settings give the same bytes, all three outputs can be read, and
// hold the same figures.
func TestOutputs(t *testing.T) {
	t.Parallel()
	for _, rates := range []string{"0", "1", "0.3", "0,0.5,1", "beta:0.01,0.01", "beta:2,5"} {
		set := func(c *Config) { c.Rates, c.Prompts, c.Seed = rates, 300, 5 }
		r, again := simulated(t, set), simulated(t, set)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := json.Marshal(again)
		if !bytes.Equal(text, other) || !bytes.Equal(r.table(), again.table()) || !bytes.Equal(r.csv(), again.csv()) || !bytes.Equal(r.svg(), again.svg()) {
			t.Errorf("%s: two runs differ", rates)
		}
		var back Report
		if err := json.Unmarshal(text, &back); err != nil {
			t.Error(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(r.csv())).ReadAll()
		if err != nil || len(rows) != 1+len(r.Results)*(1+len(r.Results[0].ByRate)) {
			t.Errorf("%s: %d lines, %v", rates, len(rows), err)
		}
		sum := 0
		for _, row := range rows[1:] {
			n, _ := strconv.Atoi(row[3])
			if row[0] == "fixed-8" && row[1] != "" {
				sum += n
			}
		}
		if sum != 300 {
			t.Errorf("%s: %d prompts by pass rate", rates, sum)
		}
		d := xml.NewDecoder(bytes.NewReader(r.svg()))
		for err = nil; err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) || strings.Count(string(r.svg()), "://") != 1 {
			t.Errorf("%s: picture: %v", rates, err)
		}
	}
	a, b := simulated(t, func(c *Config) { c.Rates, c.Prompts, c.Seed = "0.5", 500, 1 }), simulated(t, func(c *Config) { c.Rates, c.Prompts, c.Seed = "0.5", 500, 2 })
	if a.Results[0].Groups == b.Results[0].Groups && *a.Results[0].Positives == *b.Results[0].Positives {
		t.Error("the seed changes nothing")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Simulate(ctx, Defaults(), []float64{.5}); exit.Code(err) != exit.Retry {
		t.Errorf("stopped: %v", err)
	}
}

// Draws of a beta distribution have its mean and variance.
func TestBeta(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rates string
		a, b  float64
	}{{"beta:0.5,2", .5, 2}, {"beta:3,3", 3, 3}, {"beta:0.01,0.03", .01, .03}} {
		config := Defaults()
		config.Rates, config.Prompts = c.rates, 40_000
		rates, err := readRates(config)
		if err != nil {
			t.Fatal(err)
		}
		sum, squares := 0.0, 0.0
		for _, p := range rates {
			sum, squares = sum+p, squares+p*p
		}
		n := float64(len(rates))
		mean, s := c.a/(c.a+c.b), c.a+c.b
		if m, v := sum/n, squares/n-sum/n*sum/n; math.Abs(m-mean) > .01 || math.Abs(v-mean*(1-mean)/(s+1)) > .01 {
			t.Errorf("%s: mean %.4f, variance %.4f", c.rates, m, v)
		}
	}
}
