package record

import "time"

// Task is a problem in a repository with tests that decide whether it is solved.
type Task struct {
	TaskID    string     `json:"task_id"` // the source's instance_id; unique in a version
	Source    string     `json:"source"`  // name of the task set
	Repo      string     `json:"repo"`    // owner/name
	Language  string     `json:"language"`
	Version   string     `json:"version"`
	CreatedAt *time.Time `json:"created_at"`

	Statement string `json:"problem_statement"`
	Hints     string `json:"hints_text"`

	BaseCommit string `json:"base_commit"`
	// RepoBlob is a git bundle of the history up to BaseCommit and of no other ref;
	// "" when the image already has the repository at Workdir.
	RepoBlob string `json:"repo_blob" blob:"true"`
	Image    string `json:"image"`   // "" takes the stage's --default-image
	Workdir  string `json:"workdir"` // where the repository lies in the sandbox

	PreCommands []string `json:"pre_commands"` // before the harness, and again before grading
	GoldPatch   Text     `json:"gold_patch"`   // never shown to a policy
	TestPatch   Text     `json:"test_patch"`   // applied after the policy's diff
	TestCmds    []string `json:"test_cmds"`
	LogParser   string   `json:"log_parser"`
	FailToPass  []string `json:"fail_to_pass"`
	PassToPass  []string `json:"pass_to_pass"`
	TimeoutMS   int64    `json:"timeout_ms"` // of all test commands together; 0 takes the stage's default

	Goal *Goal `json:"goal"` // nil for a task that tests in its repository decide

	Raw    string `json:"raw"`    // the imported row as JSON, for a round trip
	Digest string `json:"digest"` // seal.Sum of the row without Raw and Digest
}

// Key is the task's id.
func (t Task) Key() string { return t.TaskID }

// Schema is "task", version 1.
func (Task) Schema() (string, int) { return "task", 1 }
