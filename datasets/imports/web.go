package imports

import (
	"net/url"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// webFormats are tasks on websites.
var webFormats = []*Format{
	{Name: "webgym", rank: 2, needs: needs("task_id task_name website evaluator_reference|definite_answer"), task: webGym},
	{Name: "webvoyager", rank: 2, needs: needs("web_name id ques web"), task: webVoyager},
	{Name: "gaia-web", rank: 2, needs: append(needs("ques web id|task_id"), "Final answer"), never: needs("web_name"), task: gaiaWeb},
	{Name: "online-mind2web", rank: 2, needs: needs("task_id website task_description|confirmed_task"), task: mind2Web},
	{Name: "insta", rank: 2, needs: needs("website|domain instruction|task steps criteria"), never: needs("task_id"), task: insta},
}

// goalTask is a task without a repository: its lists are empty.
func goalTask(id, statement string, goal record.Goal) record.Task {
	if goal.Criteria == nil {
		goal.Criteria = []record.Criterion{}
	}
	if goal.Files == nil {
		goal.Files = []record.File{}
	}
	return record.Task{
		TaskID: id, Statement: statement, Goal: &goal,
		PreCommands: []string{}, TestCmds: []string{}, FailToPass: []string{}, PassToPass: []string{},
	}
}

// webTask is a web task; where it starts must be an address, or a site's name.
func (r *reader) webTask(id, statement string, start column, goal record.Goal) record.Task {
	goal.Kind = record.GoalWeb
	if goal.StartURL == "" {
		goal.StartURL = r.need(start)
	}
	if goal.Site == "" {
		goal.Site = goal.StartURL
	}
	if !strings.Contains(goal.StartURL, "://") && goal.StartURL != "" {
		goal.StartURL = "https://" + goal.StartURL
	}
	if u, err := url.Parse(goal.StartURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		r.fail(start[0], "%s is no address of a website", shown(goal.StartURL))
	}
	return goalTask(id, statement, goal)
}

func webGym(r *reader) record.Task {
	meta := &reader{row: r.row, values: r.object(column{"metadata"})}
	goal := record.Goal{
		Site: r.text(column{"website"}), StartURL: meta.text(column{"start_url"}),
		ParentID: r.text(column{"task_id_decomposed_from"}), Answer: r.text(column{"definite_answer"}),
	}
	for i, e := range r.items(column{"evaluator_reference"}) {
		o, ok := e.(map[string]any)
		if !ok {
			r.fail("evaluator_reference", "element %d must be an object, not %s", i, kind(e))
			continue
		}
		c := &reader{row: r.row, values: o}
		goal.Criteria = append(goal.Criteria, record.Criterion{ID: c.text(column{"id"}), Text: c.text(column{"description"}), Facts: c.list(column{"facts"}, true)})
		if c.problem != nil {
			r.fail("evaluator_reference", "element %d: %s: %s", i, c.problem.Field, c.problem.What)
		}
	}
	if meta.problem != nil {
		r.fail("metadata", "%s: %s", meta.problem.Field, meta.problem.What)
	}
	return r.webTask(r.need(column{"task_id"}), r.need(column{"task_name"}), column{"website"}, goal)
}

// webVoyager also reads PAE, which adds eval to some tasks, and the answer that was
// beside the file.
func webVoyager(r *reader) record.Task {
	goal := record.Goal{Site: r.text(column{"web_name"})}
	if v := r.object(column{colAnswer}); v != nil {
		goal.Answer, _ = v["ans"].(string)
		goal.Judge = jsonText(map[string]any{"type": v["type"], "notice": v["notice"]})
	}
	if v := r.object(column{"eval"}); v != nil {
		goal.Judge = jsonText(v)
	}
	return r.webTask(r.need(column{"id"}), r.need(column{"ques"}), column{"web"}, goal)
}

func gaiaWeb(r *reader) record.Task {
	goal := record.Goal{Answer: r.text(column{"Final answer"})}
	return r.webTask(r.need(column{"id", "task_id"}), r.need(column{"ques"}), column{"web"}, goal)
}

func mind2Web(r *reader) record.Task {
	return r.webTask(r.need(column{"task_id"}), r.need(column{"task_description", "confirmed_task"}), column{"website"}, record.Goal{})
}

// insta rows have no id; it is told by what is asked where.
func insta(r *reader) record.Task {
	site, task := r.need(column{"website", "domain"}), r.need(column{"instruction", "task"})
	goal := record.Goal{Site: site}
	for _, c := range r.list(column{"criteria"}, true) {
		goal.Criteria = append(goal.Criteria, record.Criterion{Text: c, Facts: []string{}})
	}
	r.list(column{"steps"}, true) // stays in the raw row; it must be readable
	return r.webTask("insta-"+seal.ID(site, task)[:16], task, column{"website", "domain"}, goal)
}

// promptFormats are prompts for reinforcement learning that an environment checks.
var promptFormats = []*Format{
	{Name: "nemo-gym", rank: 2, needs: needs("responses_create_params"), never: needs("response"), task: nemoPrompt},
}

var colNemoID = column{"id", "uuid", "task_id", "instance_id"}

func nemoPrompt(r *reader) record.Task {
	params := r.object(column{"responses_create_params"})
	c := &conversation{r: r, field: "responses_create_params"}
	c.input(params["input"])
	statement := ""
	for _, m := range c.messages {
		if m.Role == "user" {
			statement = m.Content
		}
	}
	if statement == "" {
		r.fail("responses_create_params", "input has no text of a user")
	}
	goal := record.Goal{Kind: record.GoalPrompt}
	if agent := r.object(column{"agent_ref"}); agent != nil {
		goal.Judge, _ = agent["name"].(string)
	}
	return goalTask(r.nemoID(), statement, goal)
}

// nemoID is the id of a row; rows without one are told by their content.
func (r *reader) nemoID() string {
	if id := r.text(colNemoID); id != "" {
		return id
	}
	return "nemo-" + seal.ID(r.row.Raw)[:16]
}
