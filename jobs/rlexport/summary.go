package rlexport

import "orchard/datasets/record"

// groupSummary is rl-export.json: what the files beside it are, and how many of what.
type groupSummary struct {
	Settings groupSettings `json:"settings"` // the advantage's estimator, ddof and eps among them
	Groups   struct {
		In      int64            `json:"in"`
		Out     int64            `json:"out"`
		Dropped map[string]int64 `json:"dropped"` // by reason, whole groups
	} `json:"groups"`
	Samples struct {
		Out           int64            `json:"out"`
		Trajectories  int64            `json:"trajectories"`
		Branched      int64            `json:"branched"` // trajectories of several samples
		Tokens        int64            `json:"tokens"`
		Trained       int64            `json:"trained_tokens"`
		TokenSource   map[string]int64 `json:"token_source"`
		LogProbSource map[string]int64 `json:"log_prob_source"`
		Weights       map[string]int64 `json:"weight_versions"` // samples with tokens of each; "" is not known
		WeightMixed   int64            `json:"weight_mixed"`
	} `json:"samples"`
}

func newGroupSummary(c Config) groupSummary {
	s := groupSummary{Settings: c.settings()}
	s.Groups.Dropped = map[string]int64{}
	s.Samples.TokenSource, s.Samples.LogProbSource, s.Samples.Weights = map[string]int64{}, map[string]int64{}, map[string]int64{}
	return s
}

// group counts a group that is exported, or dropped under a reason.
func (s *groupSummary) group(reason string) {
	s.Groups.In++
	if reason == "" {
		s.Groups.Out++
		return
	}
	s.Groups.Dropped[reason]++
}

func (s *groupSummary) sample(r record.RLSample) {
	n := &s.Samples
	n.Out++
	if r.Branch == 0 {
		n.Trajectories++
		if r.Branches > 1 {
			n.Branched++
		}
	}
	if r.TokenSource == record.TokensServer {
		n.Tokens += int64(len(r.Tokens))
		n.Trained += r.Trained
	}
	n.TokenSource[r.TokenSource]++
	n.LogProbSource[r.LogProbSource]++
	for _, v := range r.WeightVersions {
		n.Weights[v]++
	}
	if r.WeightMixed {
		n.WeightMixed++
	}
}
