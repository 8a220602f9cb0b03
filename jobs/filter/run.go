package filter

import (
	"context"
	"fmt"
	"slices"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/embed"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/jobs/filter/contamination"
	"orchard/jobs/filter/rules"
)

// settings is what decides the rows beside the inputs.
type settings struct {
	Rules     string               `json:"rules"` // hash of the rule file and its sets; "" without
	RuleNames []string             `json:"rule_names"`
	Sets      map[string]string    `json:"sets"` // hash of each
	In        int                  `json:"in"`   // how many of the inputs are tasks to filter; the rest is what they are compared with
	Admission string               `json:"admission"`
	Evals     []evalSet            `json:"evals"`
	Checks    []string             `json:"eval_checks"`
	Limits    contamination.Limits `json:"eval_limits"`
	Embedding string               `json:"embedding,omitempty"` // of statement_cosine: hashed-ngram-v1, or "model " and its name
}

// evalSet is an evaluation set and the digest of its version.
type evalSet struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// beside is the datasets that tasks are compared with.
type beside struct {
	admission *datasets.Version // nil without
	evals     []*datasets.Version
	names     []string // of evals
}

// Run filters.
func Run(ctx context.Context, c Config, d runner.Deps) (runner.Result, error) {
	fail := func(err error) (runner.Result, error) { return runner.Failed(c.Config, "filter", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	p, err := c.program()
	if err != nil {
		return fail(err)
	}
	checks, err := c.checks()
	if err != nil {
		return fail(exit.With(exit.Config, err))
	}
	plan, err := newPlan(c, p, checks)
	if err != nil {
		return fail(err)
	}
	source, err := c.source(ctx, d, plan)
	if err != nil {
		return fail(err)
	}
	set := settings{In: len(c.In), RuleNames: []string{}, Sets: map[string]string{}, Evals: []evalSet{}, Checks: []string{}, Limits: c.Limits}
	if source == nil {
		set.Limits.Cosine = 0
	} else {
		set.Embedding = c.Embedding.Name()
	}
	if p != nil {
		set.Rules, set.Sets = p.Sum, p.SetSums
		for _, s := range p.Steps {
			set.RuleNames = append(set.RuleNames, s.Name)
		}
	}
	for _, k := range plan.checks {
		set.Checks = append(set.Checks, string(k))
	}
	cfg, with := c.Config, &beside{}
	if c.Mode != runner.ModeCheck { // which may be before there are inputs
		if with, err = c.open(ctx, d, plan); err != nil {
			return fail(err)
		}
		// They are inputs like the others: part of the key, the lineage and what is copied.
		cfg.In = slices.Clone(c.In)
		for i, v := range with.evals {
			cfg.In = append(cfg.In, v.Location().String())
			set.Evals = append(set.Evals, evalSet{with.names[i], v.Digest()})
		}
		if with.admission != nil {
			cfg.In = append(cfg.In, with.admission.Location().String())
			set.Admission = with.admission.Digest()
		}
	}
	stage := runner.Stage{Name: "filter", Version: Version, Settings: set, Model: source != nil && c.Embedding.Asks()}
	return runner.Batch(ctx, cfg, d, stage, func(ctx context.Context, pass *runner.Pass[record.Task]) error {
		return work(ctx, pass, pass.Inputs[:len(c.In)], with, plan, c.meanings(source))
	})
}

// source is where the embeddings of statements come from; nil when no step asks for any.
func (c Config) source(ctx context.Context, d runner.Deps, plan *plan) (*embed.Source, error) {
	if !plan.makes(contamination.StatementCosine, "") {
		return nil, nil
	}
	if err := c.Embedding.Validate(); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	source, err := c.Embedding.Open(c.Out, c.Workers, d.WithDefaults().Open)
	if err == nil && c.Mode == runner.ModeCheck {
		err = source.Check(ctx)
	}
	return source, err
}

// meanings is what statements are compared with by their embeddings; nil without a source.
func (c Config) meanings(source *embed.Source) *contamination.Meanings {
	if source == nil {
		return nil
	}
	return contamination.NewMeanings(c.Limits.Cosine, c.Workers, source.Embed)
}

// open opens what tasks are compared with and says by flag what is of the wrong kind.
func (c Config) open(ctx context.Context, d runner.Deps, plan *plan) (*beside, error) {
	b := &beside{}
	opener := d.WithDefaults().Open
	for _, e := range c.Evals {
		name, uri := evalName(e)
		v, err := runner.OpenAs(ctx, opener, "eval", uri, "task", "import")
		if err != nil {
			return nil, err
		}
		if v.Manifest().Rows == 0 {
			return nil, exit.Inputf("--eval %s: holds no task; comparing with it would call everything clean", v.Location())
		}
		if name == "" {
			name = v.Location().Name
		}
		b.evals, b.names = append(b.evals, v), append(b.names, name)
	}
	if c.Admission != "" {
		v, err := runner.OpenAs(ctx, opener, "admission", c.Admission, "admission", "admit")
		if err != nil {
			return nil, err
		}
		b.admission = v
	}
	return b, plan.needs(b.names)
}

// index puts the evaluation sets into memory; nil when there are none. Those of which a step
// compares the statements by their embeddings go into meanings as well.
func (b *beside) index(ctx context.Context, p *plan, meanings *contamination.Meanings) (*contamination.Index, error) {
	if len(b.evals) == 0 {
		return nil, nil
	}
	x := contamination.New(p.limits, rules.Site)
	for i, v := range b.evals {
		for t, err := range datasets.Rows[record.Task](ctx, v) {
			if err == nil {
				err = whole(ctx, v, &t)
			}
			if err == nil && meanings != nil && p.makes(contamination.StatementCosine, b.names[i]) {
				err = meanings.Add(ctx, b.names[i], &t)
			}
			if err != nil {
				return nil, fmt.Errorf("--eval: %w", err)
			}
			x.Add(b.names[i], &t)
		}
	}
	if meanings != nil {
		if err := meanings.Ready(ctx); err != nil {
			return nil, fmt.Errorf("--eval: %w", err)
		}
	}
	return x, nil
}

// standing is what admission says of a task.
type standing struct {
	admitted bool
	reason   string
}

// admitted is every task's standing; nil when nobody asks.
func (b *beside) admitted(ctx context.Context) (map[string]standing, error) {
	if b.admission == nil {
		return nil, nil
	}
	out := map[string]standing{}
	for a, err := range datasets.Rows[record.Admission](ctx, b.admission, datasets.WithColumns("task_id", "admitted", "reason")) {
		if err != nil {
			return nil, fmt.Errorf("--admission: %w", err)
		}
		if _, twice := out[a.TaskID]; twice {
			return nil, exit.Inputf("--admission %s: task %s is in it twice", b.admission.Location(), a.TaskID)
		}
		out[a.TaskID] = standing{a.Admitted, a.Reason}
	}
	return out, nil
}
