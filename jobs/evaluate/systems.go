package evaluate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/exit"
	"orchard/internal/rollout"
	"orchard/internal/rollout/play"
	"orchard/internal/runner"
)

// system is a policy in a harness, with all its settings.
type system struct {
	play.Options
	flag string // that the policy came from
}

// systems are the policies in all harnesses, a policy's harnesses beside each other.
func (c Config) systems() ([]system, error) {
	harnesses := split(c.Harnesses, ",")
	if len(harnesses) == 0 {
		harnesses = []string{c.Harness}
	}
	var policies []system
	if len(c.Policies) == 0 || c.LLM.Model != "" {
		policies = append(policies, system{c.Options, "--llm-model"})
	}
	for _, text := range split(c.Policies, " ") {
		one := system{c.Options, "--policy " + before(text)}
		name, where, ok := strings.Cut(text, "=")
		if !ok || name == "" || where == "" {
			return nil, fmt.Errorf("--policy: %q must be NAME=URL or NAME=MODEL@URL", before(text))
		}
		one.Policy, one.LLM.Model, one.LLM.URL = name, name, where
		if !strings.HasPrefix(where, "http://") && !strings.HasPrefix(where, "https://") {
			i := max(strings.Index(where, "@http://"), strings.Index(where, "@https://"))
			if i <= 0 {
				return nil, fmt.Errorf("--policy %s: its URL must begin with http:// or https://", name)
			}
			one.LLM.Model, one.LLM.URL = where[:i], where[i+1:]
		}
		policies = append(policies, one)
	}
	var list []system
	seen := map[evaluation.System]bool{}
	for _, p := range policies {
		for _, h := range harnesses {
			p.Harness = h
			if seen[p.name()] {
				return nil, fmt.Errorf("%s: policy %q in harness %q is there twice; rows are told apart by these names", p.flag, p.name().Policy, h)
			}
			seen[p.name()] = true
			list = append(list, p)
		}
	}
	return list, nil
}

// named is check with the name of the policy in its error, where there may be several.
func (s system) named(check play.Check) play.Check {
	if check == nil || !strings.HasPrefix(s.flag, "--policy") {
		return check
	}
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.flag, err)
		}
		return nil
	}
}

// split is a list whose values may be lists themselves, as a workflow's one parameter is.
func split(list []string, by string) (all []string) {
	for _, text := range list {
		for one := range strings.SplitSeq(text, by) {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

// before is what a policy's value says before its URL, which may hold a password.
func before(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

func (s system) name() evaluation.System {
	if s.Policy != "" {
		return evaluation.System{Policy: s.Policy, Harness: s.Harness}
	}
	return evaluation.System{Policy: s.LLM.Model, Harness: s.Harness}
}

func (c Config) validateSystems() error {
	list, err := c.systems()
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range list {
		if play.Asks(c.Config) && s.Harness == list[0].Harness { // once a policy
			if err := s.LLM.Validate(); err != nil {
				if s.flag != "--llm-model" {
					err = fmt.Errorf("%s: %w", s.flag, err)
				}
				errs = append(errs, err)
			}
		}
	}
	for _, s := range list {
		if s.flag == list[0].flag { // once a harness
			errs = append(errs, s.ValidateShared(c.Config))
		}
	}
	return errors.Join(unique(errs)...)
}

// unique leaves out what is said twice, such as of a setting that all harnesses share.
func unique(errs []error) []error {
	var list []error
	seen := map[string]bool{}
	for _, err := range errs {
		if err == nil {
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !seen[line] {
				seen[line] = true
				list = append(list, errors.New(line))
			}
		}
	}
	return list
}

// work is what an evaluation does: where the rows come from, and which there should be.
type work struct {
	stage    runner.Stage
	source   runner.Source[record.Rollout]
	systems  []evaluation.System
	expected func(taskID string) []evaluation.System
	each     int64 // rollouts that every expected system has of a task
}

// rolling is the work of an evaluation that rolls out.
func (c Config) rolling(d runner.Deps) (work, error) {
	list, err := c.systems()
	if err != nil {
		return work{}, exit.With(exit.Config, err)
	}
	var w work
	var settings []play.Settings
	var players []*rollout.Player
	var checks []play.Check
	policies := map[string]*rollout.Player{}
	for _, s := range list {
		own, err := s.Settings()
		if err != nil {
			return work{}, err
		}
		p, check, err := s.Player(c.Config, d.WithDefaults().Now)
		if err != nil {
			return work{}, err
		}
		if first := policies[p.Policy]; first != nil {
			p.Model = first.Model // limits and budget are a policy's, whatever harness it is in
		} else {
			policies[p.Policy] = p
			checks = append(checks, s.named(check))
		}
		settings, players, w.systems = append(settings, own), append(players, p), append(w.systems, s.name())
	}
	doer := &play.Doer{Canary: c.Canary}
	w.stage = runner.Stage{Name: "evaluate", Version: Version, Settings: rolled{Rollouts: c.Rollouts, Systems: settings}, Model: true}
	w.source = runner.Source[record.Rollout]{
		Units: func(ctx context.Context, in []*datasets.Version) ([]runner.Unit, error) {
			return play.Units(ctx, in, c.Rollouts, players...)
		},
		Do: doer.Do,
	}
	if play.Asks(c.Config) {
		w.source.Ready = func(ctx context.Context) error {
			for _, check := range checks {
				if err := check(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	w.each, w.expected = int64(c.Rollouts), func(string) []evaluation.System { return w.systems }
	return w, nil
}

// rolled is what decides the rows of an evaluation that rolls out.
type rolled struct {
	Rollouts int             `json:"rollouts"`
	Systems  []play.Settings `json:"systems"`
}
