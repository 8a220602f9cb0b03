package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Default()
	good.In, good.Out = []string{"a"}, "out/x"
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, c := range []struct {
		flag  string
		spoil func(*Config)
	}{
		{"--in", func(c *Config) { c.In = nil }},
		{"--in", func(c *Config) { c.In = []string{""} }},
		{"--out", func(c *Config) { c.Out = "" }},
		{"--out", func(c *Config) { c.Out = "out/x@12345678" }},
		{"--run-id", func(c *Config) { c.RunID = "a/b" }},
		{"--mode", func(c *Config) { c.Mode = "walk" }},
		{"--shard", func(c *Config) { c.Mode, c.Shard = ModeCommit, Shard{1, 2} }},
		{"--shards", func(c *Config) { c.Mode, c.Shards = ModePlan, 257 }},
		{"--shards", func(c *Config) { c.Shards = 2 }},
		{"--workers", func(c *Config) { c.Workers = 0 }},
		{"--deadline", func(c *Config) { c.Deadline = -1 }},
		{"--max-retries", func(c *Config) { c.MaxRetries = -1 }},
		{"--max-infra", func(c *Config) { c.MaxInfra = 1.1 }},
		{"--log-level", func(c *Config) { c.LogLevel = "loud" }},
	} {
		bad := good
		c.spoil(&bad)
		if err := bad.Validate(); exit.Code(err) != exit.Config || !strings.HasPrefix(err.Error(), c.flag+":") {
			t.Errorf("%s: %v", c.flag, err)
		}
	}
}

func parseFlags(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	c := Default()
	app := &cli.App{Flags: Flags(&c), Writer: new(bytes.Buffer), ErrWriter: new(bytes.Buffer), OnUsageError: UsageError,
		ExitErrHandler: func(*cli.Context, error) {}, Action: func(*cli.Context) error { return nil }}
	return c, app.RunContext(t.Context(), append([]string{"x"}, args...))
}

// TestFlags is not parallel: it sets the environment.
func TestFlags(t *testing.T) {
	got, err := parseFlags(t, "--in", "a,b", "--in", "c", "--out", "o", "--shard", "2/3", "--max-infra", "5%", "--mode", "run", "--deadline", "1h", "--seed", "7")
	want := Default()
	want.In, want.Out, want.Shard, want.MaxInfra, want.Deadline, want.Seed = []string{"a,b", "c"}, "o", Shard{2, 3}, 0.05, 3600e9, 7
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	t.Setenv("ORCHARD_IN", "e1\ne 2\n")
	t.Setenv("ORCHARD_WORKERS", "9")
	t.Setenv("ORCHARD_SHARD", "1/4")
	if got, err := parseFlags(t); err != nil || !slices.Equal(got.In, []string{"e1", "e 2"}) || got.Workers != 9 || got.Shard != (Shard{1, 4}) {
		t.Errorf("from the environment: %+v %v", got, err)
	}
	if got, err := parseFlags(t, "--in", "x", "--in", "y"); err != nil || !slices.Equal(got.In, []string{"x", "y"}) {
		t.Errorf("the command line does not win: %+v %v", got, err)
	}
	if got, err := parseFlags(t, "--in=x\n y\n", "--in="); err != nil || !slices.Equal(got.In, []string{"x", "y"}) {
		t.Errorf("lines of a workflow's parameter: %+v %v", got, err)
	}
	for _, arg := range []string{"--shard=0/3", "--shard=4/3", "--shard=x", "--max-infra=120%", "--max-infra=NaN", "--workers=many"} {
		if _, err := parseFlags(t, arg); exit.Code(err) != exit.Config {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// TestShardsShareOut: every unit is in exactly one shard, and shards are as equal as can be.
func TestShardsShareOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		units := make([]Unit, rapid.IntRange(0, 200).Draw(rt, "units"))
		for i := range units {
			units[i].ID = fmt.Sprint(i)
		}
		n := rapid.IntRange(1, 30).Draw(rt, "n")
		var all []Unit
		for i := 1; i <= n; i++ {
			part := Shard{i, n}.of(units)
			if len(part) < len(units)/n || len(part) > len(units)/n+1 {
				rt.Fatalf("shard %d of %d has %d of %d units", i, n, len(part), len(units))
			}
			all = append(all, part...)
		}
		if !slices.EqualFunc(all, units, func(a, b Unit) bool { return a.ID == b.ID }) {
			rt.Fatal("shards together are not the units")
		}
	})
}

// TestNothingIsLost: whatever becomes of units, the numbers add up, only too much
// trouble keeps a version from being committed, and reruns end it.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fates := rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "ok", "drop", "invalid", "once", "never"}), 1, 30).Draw(rt, "fates")
		dir, err := os.MkdirTemp("", "runner-*")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorld(dir, len(fates))
		w.cfg.MaxRetries = rapid.IntRange(0, 2).Draw(rt, "retries")
		w.cfg.MaxInfra = Share(rapid.Float64Range(0, 1).Draw(rt, "max infra"))
		w.cfg.Workers = rapid.IntRange(1, 4).Draw(rt, "workers")
		mended := false
		w.src.Do = func(_ context.Context, u Unit, tools Tools) (record.Rollout, error) {
			fate := fates[u.Work.(int)]
			switch {
			case fate == "drop":
				return record.Rollout{}, Drop("dull", errors.New("x"))
			case fate == "invalid":
				return record.Rollout{}, exit.Inputf("x")
			case fate == "once" && tools.Attempt == 1 && !mended, fate == "never" && !mended:
				return record.Rollout{}, errors.New("away")
			}
			return rollout(u), nil
		}
		count := func(names ...string) (n int64) {
			for _, f := range fates {
				if slices.Contains(names, f) {
					n++
				}
			}
			return n
		}
		trouble := count("never")
		if w.cfg.MaxRetries == 0 {
			trouble += count("once")
		}
		check := func(r Result, infra int64) {
			if err := r.balance(); err != nil || r.RowsIn != int64(len(fates)) || r.Dropped["dull"] != count("drop") ||
				r.Dropped[ReasonTaskInvalid] != count("invalid") || r.Dropped[ReasonInfra] != infra || r.Outcomes["resolved"] != r.RowsOut {
				rt.Fatalf("%+v: %v", r, err)
			}
		}
		r, err := w.run(context.Background())
		committed := float64(trouble) <= float64(w.cfg.MaxInfra)*float64(len(fates))
		switch {
		case committed && err == nil:
			check(r, trouble)
		case committed && strings.Contains(err.Error(), "in a row"): // stopped before the share was known
		case committed || exit.Code(err) != exit.Retry || r.URI != "":
			rt.Fatalf("%d in trouble of %d, %s allowed: %+v, %v", trouble, len(fates), w.cfg.MaxInfra, r, err)
		}
		if err == nil {
			return
		}
		mended = true
		if r, err = w.run(context.Background()); err != nil {
			rt.Fatal(err)
		}
		check(r, 0)
	})
}

// TestProgressAndResult: what is written for schedulers while the stage works and when
// it is over.
func TestProgressAndResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(dir, 3)
	w.cfg.Result = dir + "/result.json"
	w.deps.Getenv = func(name string) string {
		return map[string]string{"ARGO_PROGRESS_FILE": dir + "/argo", "ORCHARD_PROGRESS_FILE": dir + "/live"}[name]
	}
	var log bytes.Buffer
	r, err := w.run(zerolog.New(&log).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(dir + "/argo"); string(b) != "3/3\n" || err != nil {
		t.Errorf("argo: %q %v", b, err)
	}
	var live Progress
	b, err := os.ReadFile(dir + "/live")
	if err == nil {
		err = json.Unmarshal(b, &live)
	}
	if err != nil || !live.Over || live.finished() != 3 || live.Outcomes["resolved"] != 3 {
		t.Errorf("live: %s %v", b, err)
	}
	var result Result
	if b, err = os.ReadFile(w.cfg.Result); err == nil {
		err = json.Unmarshal(b, &result)
	}
	if d := cmp.Diff(r, result); d != "" || err != nil {
		t.Errorf("result: %v %s", err, d)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"message":"start"`) || !strings.Contains(lines[1], "test: done, 3 in, 3 out (resolved 3)") {
		t.Errorf("log:\n%s", log.String())
	}
	// A failure is in the result file too.
	w.cfg.Out = "out/@"
	if r, err := w.run(t.Context()); exit.Code(err) != exit.Config || r.ExitCode != exit.Config {
		t.Errorf("%+v %v", r, err)
	}
	if b, err := os.ReadFile(w.cfg.Result); err != nil || !strings.Contains(string(b), `"exit_code": 78`) {
		t.Errorf("result of a failure: %s %v", b, err)
	}
	w.cfg.Out, w.cfg.Result = dir+"/rollouts", dir+"/none/result.json"
	if _, err := w.run(t.Context()); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "--result") {
		t.Errorf("a result file that cannot be: %v", err)
	}
}

// A pass over a result reads the versions that it was made of, whatever --in says meanwhile.
func TestAfter(t *testing.T) {
	t.Parallel()
	c := Default()
	c.In, c.Out, c.Mode, c.Result, c.OutputDir = []string{"tasks"}, "out", ModeCommit, "r.json", "d"
	got := c.After("other", Result{URI: "out@1", Inputs: []string{"tasks@2"}}, "before@3")
	if want := []string{"out@1", "tasks@2", "before@3"}; !slices.Equal(got.In, want) || got.Out != "other" {
		t.Errorf("in %v, out %s; want %v and other", got.In, got.Out, want)
	}
	if got.Mode != ModeRun || got.Result != "" || got.OutputDir != "" || c.In[0] != "tasks" {
		t.Errorf("%+v", got)
	}
}
