package imports

import (
	"strings"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// traceFormats are sets of trajectories.
var traceFormats = []*Format{
	{Name: "openhands-trajectories", Rollouts: true, rank: 2, needs: needs("trajectory_id instance_id trajectory model_patch exit_status resolved"), rollout: trace{
		id: column{"trajectory_id"}, messages: column{"trajectory"}, patch: column{"model_patch"}, resolved: column{"resolved"}, harness: "openhands"}.read},
	{Name: "swe-agent-trajectories", Rollouts: true, rank: 2, needs: needs("instance_id model_name target trajectory generated_patch"), rollout: trace{
		messages: column{"trajectory"}, patch: column{"generated_patch"}, resolved: column{"target"}, policy: column{"model_name"}, log: column{"eval_logs"}, harness: "swe-agent"}.read},
	{Name: "open-swe-traces", Rollouts: true, rank: 2, needs: needs("trajectory_id instance_id messages tools resolved metadata|hf_dataset_name"), never: needs("trajectory"), rollout: trace{
		id: column{"trajectory_id"}, messages: column{"messages"}, resolved: column{"resolved"}, teacher: true}.read},
	{Name: "swe-smith-trajectories", Rollouts: true, rank: 2, needs: needs("traj_id instance_id messages resolved patch"), rollout: trace{
		id: column{"traj_id"}, messages: column{"messages"}, patch: column{"patch"}, resolved: column{"resolved"}, policy: column{"model"}, harness: "swe-agent"}.read},
	{Name: "nemotron-sft", Rollouts: true, rank: 2, needs: needs("messages uuid"), never: needs("instance_id trajectory_id traj_id"), rollout: trace{
		id: column{"uuid"}, task: column{"uuid"}, messages: column{"messages"}}.read},
	{Name: "nemo-gym-rollouts", Rollouts: true, rank: 2, needs: needs("responses_create_params response"), rollout: nemoRollout},
}

// trace is which columns of a set of trajectories hold what. Columns that it does not
// name are not there.
type trace struct {
	id, task, messages, patch, resolved, policy, log column
	harness                                          string
	teacher                                          bool // metadata.teacher_model names the policy
}

var (
	colTools = column{"tools"}
	colExit  = column{"exit_status"}
)

func (f trace) read(r *reader) record.Rollout {
	if f.task == nil {
		f.task = colID
	}
	out := record.Rollout{
		TaskID: r.need(f.task), Source: r.text(colSource), Repo: r.text(colRepo), Language: strings.ToLower(r.text(colLanguage)),
		Policy: r.text(f.policy), Harness: f.harness,
	}
	if f.teacher {
		teacher, _ := asObject(r.object(column{"metadata"})["teacher_model"])
		out.Policy, _ = teacher["name"].(string)
	}
	// Rows without an id of their own are told by all that they say.
	name := r.row.Raw
	if f.id != nil {
		name = r.need(f.id)
	}
	out.RolloutID = seal.ID("imported", out.TaskID, out.Policy, out.Harness, name)
	c := &conversation{r: r, field: f.messages[0]}
	list := r.items(f.messages)
	if len(list) == 0 {
		r.fail(f.messages[0], "is missing or empty; a rollout has messages")
	}
	c.chat(list)
	diff := r.exact(f.patch)
	out.Trajectory = c.trajectory(diff, r.text(colExit))
	out.Trajectory.Tools = r.tools(colTools)
	r.finish(&out, r.outcome(f.resolved))
	if log := r.exact(f.log); log != "" {
		out.Verdict.Log = record.Text{Value: log, Bytes: int64(len(log))}
	}
	return out
}

// outcome is whether the row says that the task was solved; nil when it says nothing.
func (r *reader) outcome(c column) *bool {
	if c == nil {
		return nil
	}
	v, name := c.in(r.values)
	ok, err := asOutcome(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	return ok
}

// finish says what is known of the outcome, and what follows from the trajectory.
func (r *reader) finish(out *record.Rollout, resolved *bool) {
	v := record.Verdict{Outcome: record.NotGraded, Reason: "the source does not say whether the task was solved", Dropped: []string{}, Tests: []record.TestResult{}}
	if resolved != nil {
		v.Outcome, v.Reason, v.Grader = record.Unresolved, "as the source says", "imported"
		if *resolved {
			v.Outcome = record.Resolved
		}
	}
	v.Reward = v.Outcome.Reward()
	out.Verdict = v
	out.Usage = record.Usage{ModelCalls: int64(len(out.Trajectory.Steps))}
	if len(out.Trajectory.Steps) == 0 {
		r.fail("messages", "hold no answer of a model")
	}
}

// trajectory is the conversation with how it ended. A patch that the source has is both
// what the working tree had changed and what was handed in, if anything was.
func (c *conversation) trajectory(diff, exit string) record.Trajectory {
	t := record.Trajectory{Messages: c.messages, Steps: c.steps, ExitStatus: exitStatus(exit), ExitDetail: exit,
		Diff: record.Text{Value: diff, Bytes: int64(len(diff))}, DiffSHA256: seal.Bytes([]byte(diff))}
	if t.Messages == nil {
		t.Messages = []record.Message{}
	}
	if t.Steps == nil {
		t.Steps = []record.Step{}
	}
	if t.ExitStatus == record.ExitSubmitted {
		t.Submission = t.Diff
	}
	return t
}

// exits are the beginnings of what sources call an end; the first that fits counts.
var exits = []struct{ begin, status string }{
	{"submit", record.ExitSubmitted}, {"finish", record.ExitSubmitted}, {"agentfinish", record.ExitSubmitted}, {"completed", record.ExitSubmitted},
	{"exit_context", record.ExitTokenLimit}, {"context", record.ExitTokenLimit}, {"exit_token", record.ExitTokenLimit},
	{"exit_cost", record.ExitCostLimit}, {"cost", record.ExitCostLimit},
	{"exit_format", record.ExitRepeatedFormat}, {"max_iter", record.ExitStepLimit}, {"limit", record.ExitStepLimit}, {"step_limit", record.ExitStepLimit},
	{"timeout", record.ExitTimeLimit}, {"exit_time", record.ExitTimeLimit}, {"stuck", record.ExitStuck}, {"agentstuck", record.ExitStuck},
}

// exitStatus is an end in our words; "" for one that has none, which stays in the detail.
// SWE-agent submits what there is when it hits a limit, as "submitted (exit_cost)".
func exitStatus(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if _, why, ok := strings.Cut(s, "("); ok {
		s = strings.TrimSuffix(why, ")")
	}
	for _, e := range exits {
		if strings.HasPrefix(s, e.begin) {
			return e.status
		}
	}
	return ""
}

// nemoRollout reads a row of rollouts of NeMo-Gym: the prompt, and what the model
// answered. Of its reward only 1 means solved; a part of it stays as it is.
func nemoRollout(r *reader) record.Rollout {
	params, response := r.object(column{"responses_create_params"}), r.object(column{"response"})
	out := record.Rollout{TaskID: r.nemoID(), Source: r.text(colSource)}
	out.Policy, _ = response["model"].(string)
	c := &conversation{r: r, field: "responses_create_params"}
	c.input(params["input"])
	prompt := len(c.messages)
	c.steps = nil // answers in a prompt are not this policy's
	for i := range c.messages {
		c.messages[i].Step = -1
	}
	c.field = "response"
	c.input(response["output"])
	if len(c.messages) == prompt {
		r.fail("response", "has no output")
	}
	out.RolloutID = seal.ID("imported", out.TaskID, out.Policy, "", r.row.Raw)
	out.Trajectory = c.trajectory("", "")
	in := r.inFile(params)
	out.Trajectory.Tools = in.tools(colTools)
	r.take("responses_create_params", in)
	reward := r.number("reward")
	var solved *bool
	if reward != nil {
		yes := *reward >= 1
		solved = &yes
	}
	r.finish(&out, solved)
	if reward != nil && *reward > 0 && *reward < 1 {
		out.Verdict.Outcome, out.Verdict.Reward = record.Partial, reward
	}
	return out
}
