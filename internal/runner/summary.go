package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orchard/internal/exit"
	"orchard/internal/logx"
	"orchard/internal/whole"
)

// balance asserts that no row was lost or made up.
func (r *Result) balance() error {
	sum := r.RowsOut
	for _, n := range r.Dropped {
		sum += n
	}
	if r.RowsIn != sum {
		return exit.With(exit.Bug, fmt.Errorf("rows do not add up: %d in, but %d out and dropped (%s)", r.RowsIn, sum, counts(r.Dropped)))
	}
	return nil
}

// Summary is the result as one line for people.
func (r Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", r.Stage, strings.ReplaceAll(r.Status, "_", " "))
	switch r.Status {
	case StatusDone, StatusAlready:
		fmt.Fprintf(&b, ", %d in, %d out", r.RowsIn, r.RowsOut)
		if len(r.Outcomes) > 0 {
			fmt.Fprintf(&b, " (%s)", counts(r.Outcomes))
		}
		if len(r.Dropped) > 0 {
			fmt.Fprintf(&b, ", dropped %s", counts(r.Dropped))
		}
	case StatusPlanned:
		fmt.Fprintf(&b, ", %d units in %d shards", r.RowsIn, len(r.Shards))
	}
	if u := r.Units; u != nil && r.Status != StatusAlready && r.Status != StatusPlanned {
		fmt.Fprintf(&b, "; units: %d of %d finished", u.Done+u.Reused, u.Total)
		for _, c := range []struct {
			n    int64
			what string
		}{{u.Reused, "found finished"}, {u.Retried, "retries"}, {u.Infra, "in trouble that is not theirs"}, {u.Left, "left"}} {
			if c.n > 0 {
				fmt.Fprintf(&b, ", %d %s", c.n, c.what)
			}
		}
	}
	fmt.Fprintf(&b, " in %v", (time.Duration(r.DurMS) * time.Millisecond).Round(10*time.Millisecond))
	if r.URI != "" {
		fmt.Fprintf(&b, " -> %s", r.URI)
	}
	if r.Left != "" {
		fmt.Fprintf(&b, " (another run committed it first; this run made %.12s, which is left)", r.Left)
	}
	return b.String()
}

// counts is numbers by name: the largest first, equals by name.
func counts(m map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s %d", n, m[n])
	}
	return strings.Join(names, ", ")
}

// finish is the end of every stage that got as far as its start: status, exit code,
// result file and summary.
func (j *job) finish(err error) (Result, error) {
	err = classify(err)
	j.update(func(r *Result) {
		r.DurMS = j.deps.Now().Sub(j.began).Milliseconds()
		r.ExitCode = exit.Code(err)
		if u := r.Units; u != nil && r.Status != StatusAlready {
			u.Left = u.Total - u.Done - u.Reused - u.Infra
		}
		if err != nil {
			r.Status, r.Error = StatusFailed, err.Error()
			if errors.Is(err, errStopped) {
				r.Status = StatusStopped
			}
		}
	})
	r := j.snapshot()
	err = saveResult(j.cfg, r, err)
	// An error is told once, by main, which gets it from here. People get the line;
	// programs get the numbers as well.
	e := j.log.Info()
	if j.terminal() == nil {
		e = e.Int64("rows_in", r.RowsIn).Int64("rows_out", r.RowsOut).Interface("dropped", r.Dropped).
			Interface("units", r.Units).Interface("usage", r.Usage).Str("uri", r.URI).Int64(logx.DurMS, r.DurMS)
	}
	e.Msg(r.Summary())
	return r, err
}

// Failed is the result of a stage that did not get as far as Batch or Rollouts, also
// written to the result file.
func Failed(cfg Config, stage string, err error) (Result, error) {
	err = classify(err)
	r := Result{Stage: stage, RunID: cfg.RunID, Mode: string(cfg.Mode), Status: StatusFailed, ExitCode: exit.Code(err), Error: err.Error(), Inputs: []string{}, Dropped: map[string]int64{}}
	return r, saveResult(cfg, r, err)
}

// saveResult writes the result file and the output files, and returns err, or what kept
// them from being written.
func saveResult(cfg Config, r Result, err error) error {
	if oerr := saveOutputs(cfg.OutputDir, r); oerr != nil {
		err = errors.Join(err, oerr)
	}
	if cfg.Result == "" {
		return err
	}
	b, merr := json.MarshalIndent(r, "", "  ")
	if merr == nil {
		merr = whole.WriteBytes(cfg.Result, 0o644, append(b, '\n'))
	}
	if merr != nil {
		return errors.Join(err, exit.Configf("--result: write %s: %w", cfg.Result, merr))
	}
	return err
}
