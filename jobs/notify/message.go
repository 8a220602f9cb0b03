package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation/history"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// message is what the webhook gets. Text is for people, and what chat services show of it;
// what is not known is null.
type message struct {
	Text       string    `json:"text"`
	Pipeline   string    `json:"pipeline"`
	RunID      string    `json:"run_id"`
	Status     string    `json:"status"`
	Seconds    *float64  `json:"duration_seconds"`
	Headline   *string   `json:"headline"` // null when there is no evaluation of the run
	Regression *bool     `json:"regression"`
	Alpha      float64   `json:"alpha"`
	Systems    []numbers `json:"systems"`
	Evaluation *string   `json:"evaluation"` // URI
	Report     *string   `json:"report"`     // URI of the page
	Trouble    *string   `json:"trouble"`    // why the store does not say
}

// numbers is a system of the evaluation.
type numbers struct {
	Policy        string   `json:"policy"`
	Harness       string   `json:"harness"`
	Resolved      int64    `json:"resolved"`
	Known         int64    `json:"known"`
	Rollouts      int64    `json:"rollouts"`
	Rate          *float64 `json:"rate"`
	Low           *float64 `json:"low"`
	High          *float64 `json:"high"`
	Withheld      string   `json:"withheld"`
	Baseline      string   `json:"baseline"`
	NewlyResolved *int64   `json:"newly_resolved"`
	NewlyFailed   *int64   `json:"newly_failed"`
	McNemarP      *float64 `json:"mcnemar_p"`
	Difference    *float64 `json:"difference"`
	Regression    bool     `json:"regression"`
}

func (c Config) message(ctx context.Context, d runner.Deps) (message, error) {
	m := message{Pipeline: c.Pipeline, RunID: c.RunID, Status: c.Status, Alpha: c.Alpha, Systems: []numbers{}}
	if c.Duration > 0 {
		s := c.Duration.Seconds()
		m.Seconds = &s
	}
	run, there, err := c.find(ctx, d)
	if ctx.Err() != nil {
		return m, ctx.Err()
	}
	if err != nil && exit.Code(err) == exit.Config {
		return m, err
	}
	lines := []string{fmt.Sprintf("%s %s: %s", c.Pipeline, c.RunID, c.Status)}
	switch {
	case err != nil: // that the store is away may be why the run failed, and is no reason not to say so
		first, _, _ := strings.Cut(err.Error(), "\n")
		m.Trouble = &first
		lines = append(lines, "the store does not say what was evaluated: "+first)
	case !there:
		lines = append(lines, "there is no evaluation of this run")
	default:
		headline := run.Headlines(c.Alpha)
		m.Headline, m.Evaluation, m.Regression = &headline, &run.URI, run.Regression(c.Alpha)
		lines = append(lines, headline)
		for _, e := range run.Systems {
			m.Systems = append(m.Systems, of(e, c.Alpha))
		}
		if page := c.page(ctx, d, run); page != "" {
			m.Report = &page
			lines = append(lines, page)
		}
	}
	m.Text = strings.Join(lines, "\n")
	return m, nil
}

func of(e record.Evaluation, alpha float64) numbers {
	return numbers{e.Policy, e.Harness, e.Resolved, e.Known, e.Rollouts, e.Rate, e.Low, e.High, e.Withheld, e.Baseline, e.NewlyResolved, e.NewlyFailed, e.McNemarP, e.Difference, history.Regressed(e, alpha)}
}

// find is the newest evaluation of the run.
func (c Config) find(ctx context.Context, d runner.Deps) (history.Run, bool, error) {
	loc, err := datasets.Parse(c.In[0])
	if err != nil {
		return history.Run{}, false, fmt.Errorf("--in: %w", err)
	}
	store, err := d.Open(ctx, loc.Root)
	if err != nil {
		return history.Run{}, false, err
	}
	all, err := history.All(ctx, store, loc.Name)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return history.Run{}, false, err
	}
	for _, r := range slices.Backward(all) {
		if r.ID == c.RunID {
			return r, true, nil
		}
	}
	return history.Run{}, false, nil
}

// page is where the report of the run's rollouts is; "" when there is none.
func (c Config) page(ctx context.Context, d runner.Deps, run history.Run) string {
	loc, err := datasets.Parse(c.Report)
	if c.Report == "" || err != nil {
		return ""
	}
	store, err := d.Open(ctx, loc.Root)
	if err != nil {
		return ""
	}
	page, newest := "", ""
	for v, err := range datasets.Versions(ctx, store, loc.Name) {
		if err != nil {
			return page
		}
		m := v.Manifest()
		if len(m.Inputs) == 0 || !strings.HasSuffix(run.Rollouts, "@"+m.Inputs[0].Digest) {
			continue
		}
		if at := m.Run.Committed.UTC().Format("20060102150405.000000"); at > newest {
			newest, page = at, strings.TrimSuffix(store.String(), "/")+"/"+datasets.FilesPrefix(loc.Name, m.Key)+"report.html"
		}
	}
	return page
}
