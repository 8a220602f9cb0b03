package export

import (
	"encoding/json"
	"time"

	"orchard/datasets/record"
)

// promptMetadata is the metadata of an Orchard RL prompt row, which its environment
// reads, and which `orchard import --format orchard-rl` reads back.
type promptMetadata struct {
	Dataset        string          `json:"dataset"`
	InstanceID     string          `json:"instance_id"`
	ImageURL       string          `json:"image_url"`
	InstallConfig  json.RawMessage `json:"install_config"`
	TestCmds       []string        `json:"test_cmds"`
	LogParser      string          `json:"log_parser"`
	Workdir        string          `json:"workdir"`
	PreCommands    []string        `json:"pre_commands"`
	Repo           string          `json:"repo"`
	BaseCommit     string          `json:"base_commit"`
	Version        string          `json:"version"`
	TestPatch      string          `json:"test_patch"`
	Hints          string          `json:"hints_text"`
	CreatedAt      *time.Time      `json:"created_at"`
	EnvSetupCommit string          `json:"environment_setup_commit"`
	FailToPass     []string        `json:"FAIL_TO_PASS"`
	PassToPass     []string        `json:"PASS_TO_PASS"`
	Language       string          `json:"language"`
	TimeoutMS      int64           `json:"timeout_ms"`
	PassRate       *float64        `json:"pass_rate"`
	Rollouts       *int64          `json:"n_rollouts"`
	Passed         *int64          `json:"n_pass"`
	Infra          *int64          `json:"n_infra"`
}

// RLPrompt is a task as a prompt. gold and test are its patches in full; gold is "" to
// leave the label out. rate is nil where nobody estimated.
func RLPrompt(t record.Task, gold, test string, rate *record.PassRate) (record.RLPrompt, error) {
	row := record.RLPrompt{
		ID: t.TaskID, TaskID: t.TaskID, Source: t.Source, Repo: t.Repo, Language: t.Language, Statement: t.Statement, Label: gold,
	}
	if rate != nil {
		drawn := int64(len(rate.Draws))
		row.PassRate, row.Rollouts, row.Passed, row.Infra = rate.Rate, &drawn, &rate.Passed, &rate.Unknown
		row.Policy, row.Harness, row.WeightVersion = rate.Policy, rate.Harness, rate.WeightVersion
	}
	var raw struct {
		Install json.RawMessage `json:"install_config"`
		Setup   string          `json:"environment_setup_commit"`
	}
	// Rows of other shapes keep neither under these names.
	if json.Unmarshal([]byte(t.Raw), &raw) != nil || len(raw.Install) == 0 || raw.Install[0] != '{' {
		var err error
		raw.Install, err = json.Marshal(struct {
			TestCmd   []string `json:"test_cmd"`
			LogParser string   `json:"log_parser"`
		}{t.TestCmds, t.LogParser})
		if err != nil {
			return row, err
		}
	}
	b, err := json.Marshal(promptMetadata{
		Dataset: t.Source, InstanceID: t.TaskID, ImageURL: t.Image, InstallConfig: raw.Install, TestCmds: t.TestCmds, LogParser: t.LogParser, Workdir: t.Workdir, PreCommands: t.PreCommands,
		Repo: t.Repo, BaseCommit: t.BaseCommit, Version: t.Version, TestPatch: test, Hints: t.Hints, CreatedAt: t.CreatedAt,
		EnvSetupCommit: raw.Setup, FailToPass: t.FailToPass, PassToPass: t.PassToPass, Language: t.Language, TimeoutMS: t.TimeoutMS,
		PassRate: row.PassRate, Rollouts: row.Rollouts, Passed: row.Passed, Infra: row.Infra,
	})
	row.Metadata = string(b)
	return row, err
}

// SlimePromptLine is a prompt as slime reads it with --input-key problem_statement and
// --label-key label; "" leaves the label out.
func SlimePromptLine(r record.RLPrompt, label string) ([]byte, error) {
	row := map[string]any{"problem_statement": r.Statement, "metadata": json.RawMessage(r.Metadata)}
	if label != "" {
		row[label] = r.Label
	}
	return line(row)
}

// NemoPromptLine is a prompt as NeMo-Gym reads it: what its model is asked, and fields
// for the resources server. Its own preparation adds the agent.
func NemoPromptLine(r record.RLPrompt) ([]byte, error) {
	type input struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type params struct {
		Input []input `json:"input"`
	}
	return line(struct {
		Params   params          `json:"responses_create_params"`
		ID       string          `json:"id"`
		Answer   string          `json:"expected_answer,omitempty"`
		Metadata json.RawMessage `json:"verifier_metadata"`
		PassRate *float64        `json:"pass_rate"`
		Rollouts *int64          `json:"n_rollouts"`
		Passed   *int64          `json:"n_pass"`
		Infra    *int64          `json:"n_infra"`
	}{params{[]input{{"user", r.Statement}}}, r.ID, r.Label, json.RawMessage(r.Metadata), r.PassRate, r.Rollouts, r.Passed, r.Infra})
}

// VerlPromptRow is a prompt in verl's columns.
type VerlPromptRow struct {
	DataSource  string           `json:"data_source"`
	Prompt      []VerlPrompt     `json:"prompt"`
	Ability     string           `json:"ability"`
	RewardModel VerlRewardModel  `json:"reward_model"`
	Extra       VerlPromptExtras `json:"extra_info"`
}

// VerlRewardModel says how an answer is judged.
type VerlRewardModel struct {
	Style       string `json:"style"`
	GroundTruth string `json:"ground_truth"`
}

// VerlPromptExtras is what verl hands through.
type VerlPromptExtras struct {
	Split      string   `json:"split"`
	Index      int64    `json:"index"`
	InstanceID string   `json:"instance_id"`
	Metadata   string   `json:"metadata"` // JSON object
	PassRate   *float64 `json:"pass_rate"`
	Rollouts   *int64   `json:"n_rollouts"`
	Passed     *int64   `json:"n_pass"`
	Infra      *int64   `json:"n_infra"`
}

// Key is the task's id.
func (r VerlPromptRow) Key() string { return r.Extra.InstanceID }

// Schema is "verl_prompt", version 1.
func (VerlPromptRow) Schema() (string, int) { return "verl_prompt", 1 }

// VerlPromptOf is a prompt in verl's columns. The style "rule" is verl's word for a
// reward that a function computes.
func VerlPromptOf(r record.RLPrompt) VerlPromptRow {
	return VerlPromptRow{
		DataSource: r.Source, Prompt: []VerlPrompt{{"user", r.Statement}}, Ability: "code",
		RewardModel: VerlRewardModel{Style: "rule", GroundTruth: r.Label},
		Extra:       VerlPromptExtras{"train", r.Index, r.TaskID, r.Metadata, r.PassRate, r.Rollouts, r.Passed, r.Infra},
	}
}
