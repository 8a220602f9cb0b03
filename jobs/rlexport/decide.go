package rlexport

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// Reasons for leaving a whole group out, beside those of export.RL.
const (
	ReasonUnusable    = "unusable_group"     // the stage that chose it says so
	ReasonOtherPolicy = "other_policy"       // --policy
	ReasonNoMembers   = "no_members"         // no draw of it is a member
	ReasonNoReward    = "no_reward"          // we do not know what a member is worth
	ReasonMixedTokens = "mixed_token_ids"    // some members have token ids, and some have none
	ReasonTooLong     = "too_long"           // over --max-tokens
	ReasonNoCount     = "no_token_count"     // --max-tokens, and nobody counted
	ReasonStale       = "stale_weights"      // --weight-version
	ReasonNoWeights   = "no_weight_version"  // --weight-version, and nobody knows from which weights
	ReasonOneMember   = "one_member"         // compared with itself it says nothing
	ReasonNoVariance  = "no_reward_variance" // all advantages are 0
)

// decide is the samples of a group, or the reason why it has none; parts is its members'
// rows in order. Indexes are not given yet. An error says that the rollouts are not those
// of the group, or that a reward is no number.
func (c Config) decide(g record.Group, parts []part) ([]record.RLSample, string, error) {
	members := membersOf(g)
	if len(members) == 0 {
		return nil, ReasonNoMembers, nil
	}
	rewards, at := []float64{}, make([]int, len(parts)) // each part's member
	unknown := false
	for i, p := range parts {
		if p.Sample.Branch > 0 {
			at[i] = at[i-1]
			continue
		}
		at[i] = len(rewards)
		if err := belongs(g, members[at[i]], p); err != nil {
			return nil, "", err
		}
		if p.Reward == nil {
			unknown = true
			rewards = append(rewards, math.NaN())
			continue
		}
		rewards = append(rewards, *p.Reward)
	}
	if unknown {
		return nil, ReasonNoReward, nil
	}
	samples := make([]record.RLSample, len(parts))
	for i, p := range parts {
		samples[i] = c.complete(g, members[at[i]], p)
		samples[i].Member, samples[i].Members, samples[i].Reward = int64(at[i]), int64(len(members)), rewards[at[i]]
	}
	for _, look := range []func(record.Group, []part, []record.RLSample) (string, error){c.trainable, c.budget, c.weights} {
		if reason, err := look(g, parts, samples); reason != "" || err != nil {
			return nil, reason, err
		}
	}
	if reason, err := c.advantages(rewards, at, samples); reason != "" || err != nil {
		return nil, reason, err
	}
	for i := range samples {
		var err error
		if samples[i].Metadata, err = c.metadata(g, samples[i]); err != nil {
			return nil, "", err
		}
		if err := export.CheckRL(samples[i]); err != nil {
			return nil, "", exit.With(exit.Bug, err)
		}
	}
	return samples, "", nil
}

// belongs compares a member with the draw that the group chose.
func belongs(g record.Group, d record.Draw, p part) error {
	s := p.Sample
	bad := func(what, got, want string) error {
		return exit.Inputf("group %s: its member, rollout %s, is of %s %q, and the group of %q; --rollouts is not the dataset it was chosen from", g.GroupID, s.RolloutID, what, got, want)
	}
	switch {
	case s.RolloutID != d.RolloutID:
		return exit.Inputf("group %s: rollout %s stands where %s should", g.GroupID, s.RolloutID, d.RolloutID)
	case s.TaskID != g.TaskID:
		return bad("task", s.TaskID, g.TaskID)
	case s.Policy != g.Policy:
		return bad("policy", s.Policy, g.Policy)
	case s.Harness != g.Harness:
		return bad("harness", s.Harness, g.Harness)
	}
	for _, r := range []*float64{d.Reward, p.Reward} {
		if r != nil && (math.IsNaN(*r) || math.IsInf(*r, 0)) {
			return exit.Inputf("group %s: rollout %s: its reward is %v, which is no number; a reward that is not known is null", g.GroupID, s.RolloutID, *r)
		}
	}
	if (d.Reward == nil) != (p.Reward == nil) || d.Reward != nil && *d.Reward != *p.Reward {
		return exit.Inputf("group %s: rollout %s has the reward %s, and in the group %s; --rollouts is not the dataset it was chosen from", g.GroupID, s.RolloutID, shown(p.Reward), shown(d.Reward))
	}
	return nil
}

func shown(r *float64) string {
	b, _ := json.Marshal(r) // finite or nil
	return string(b)
}

// complete is a part with what its group says.
func (c Config) complete(g record.Group, d record.Draw, p part) record.RLSample {
	s := p.Sample
	s.ID = seal.ID(g.GroupID, s.RolloutID, p.ID[len(p.ID)-6:])
	s.GroupID, s.Status = g.GroupID, d.Status
	versions := []string{}
	for _, v := range s.WeightVersions {
		if v = cmp.Or(v, g.WeightVersion); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	s.WeightVersions, s.WeightMixed = versions, len(versions) > 1
	if len(versions) == 1 {
		s.WeightVersion = versions[0]
	}
	return s
}

func (c Config) trainable(_ record.Group, parts []part, samples []record.RLSample) (string, error) {
	for _, p := range parts {
		if p.Reason != "" {
			return p.Reason, nil
		}
	}
	if slices.ContainsFunc(samples, func(s record.RLSample) bool { return s.TokenSource != samples[0].TokenSource }) {
		return ReasonMixedTokens, nil
	}
	return "", nil
}

func (c Config) budget(_ record.Group, _ []part, samples []record.RLSample) (string, error) {
	if c.MaxTokens == 0 {
		return "", nil
	}
	for _, s := range samples {
		n := int64(len(s.Tokens))
		if s.TokenSource == record.TokensNone {
			if s.NTokens == nil {
				return ReasonNoCount, nil
			}
			n = *s.NTokens
		}
		if n > c.MaxTokens {
			return ReasonTooLong, nil
		}
	}
	return "", nil
}

func (c Config) weights(g record.Group, _ []part, samples []record.RLSample) (string, error) {
	if c.WeightVersion == "" {
		return "", nil
	}
	for _, s := range samples {
		for _, v := range s.WeightVersions {
			switch {
			case v == c.WeightVersion:
			case c.Stale == StaleError:
				return "", exit.Inputf("group %s: rollout %s was sampled from the weights %q, not %q of --weight-version; --stale drop leaves such groups out", g.GroupID, s.RolloutID, v, c.WeightVersion)
			case v == "":
				return ReasonNoWeights, nil
			default:
				return ReasonStale, nil
			}
		}
	}
	return "", nil
}

// advantages sets those of all samples, by their members' rewards.
func (c Config) advantages(rewards []float64, at []int, samples []record.RLSample) (string, error) {
	if c.Advantage == AdvantageNone {
		return "", nil
	}
	if len(rewards) == 1 {
		return ReasonOneMember, nil
	}
	list, err := c.Scale.Of(rewards)
	if err != nil {
		return "", exit.With(exit.Bug, err)
	}
	if !slices.ContainsFunc(list, func(a float64) bool { return a != 0 }) {
		return ReasonNoVariance, nil
	}
	for i := range samples {
		samples[i].Advantage = &list[at[i]]
	}
	return "", nil
}

// metadata is what a trainer may want to filter or weigh by, as a JSON object.
func (c Config) metadata(g record.Group, s record.RLSample) (string, error) {
	type estimator struct {
		Estimator string   `json:"estimator"`
		DDof      int      `json:"ddof"`
		Eps       float64  `json:"eps"`
		Value     *float64 `json:"value"`
	}
	b, err := json.Marshal(struct {
		GroupID    string         `json:"group_id"`
		TaskID     string         `json:"task_id"`
		RolloutID  string         `json:"rollout_id"`
		Member     int64          `json:"member"`
		Members    int64          `json:"members"`
		Branch     int64          `json:"branch"`
		Branches   int64          `json:"branches"`
		Source     string         `json:"source"`
		Repo       string         `json:"repo"`
		Language   string         `json:"language"`
		Policy     string         `json:"policy"`
		Harness    string         `json:"harness"`
		Strategy   string         `json:"strategy"`
		Kind       string         `json:"kind"`
		Round      int64          `json:"round"`
		Outcome    record.Outcome `json:"outcome"`
		Status     string         `json:"status"`
		ExitStatus string         `json:"exit_status"`
		Grader     string         `json:"grader"`
		Mixed      bool           `json:"weight_mixed"`
		Trained    int64          `json:"trained"`
		Tokens     string         `json:"token_source"`
		LogProbs   string         `json:"log_prob_source"`
		Advantage  estimator      `json:"advantage"`
		Scripted   bool           `json:"scripted"`
	}{g.GroupID, g.TaskID, s.RolloutID, s.Member, s.Members, s.Branch, s.Branches, s.Source, s.Repo, s.Language, s.Policy, s.Harness,
		g.Strategy, g.Kind, g.Round, s.Outcome, s.Status, s.ExitStatus, s.Grader, s.WeightMixed, s.Trained, s.TokenSource, s.LogProbSource,
		estimator{c.Advantage, c.Scale.DDof, c.Scale.Eps, s.Advantage}, s.Policy == "scripted"})
	return string(b), err
}
