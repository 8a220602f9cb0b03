package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"

	"orchard/datasets/record"
)

//go:embed page/report.html
var pageHTML string

//go:embed page/report.css
var pageCSS string

//go:embed page/report.js
var pageJS string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"class": class}).Parse(pageHTML))

// class is the colour of an outcome.
func class(o record.Outcome) string {
	switch o {
	case record.Resolved:
		return "good"
	case record.Partial:
		return "some"
	case record.NoTestsRan, record.InfraError, record.TaskInvalid:
		return "none"
	}
	return "bad"
}

type stage struct {
	Name  string
	Value int64
}

const (
	mostTimeBars = 25
	mostTaskRows = 500
)

// writePage writes report.html. Samples are the trajectories that lie in the page itself.
func writePage(w io.Writer, title string, s *Summary, samples []trajectory) error {
	if samples == nil {
		samples = []trajectory{}
	}
	tasks := s.Tasks()
	times := timeBars(tasks)
	known, resolved := s.Known()
	funnel := []stage{{"rollouts", s.Rollouts}, {"with a reward", known}, {"resolved", resolved}}
	if s.TasksIn > 0 {
		funnel = append([]stage{{"tasks", s.TasksIn}}, funnel...)
	}
	if s.SFTRows >= 0 {
		funnel = append(funnel, stage{"SFT rows", s.SFTRows})
	}
	data := map[string]any{
		"Title": title, "Headline": s.Headline(), "Policies": names(s.Policies), "Harnesses": names(s.Harness),
		"Usage": usage(s.Usage), "Funnel": funnel, "CSS": template.CSS(pageCSS), "JS": template.JS(pageJS), "Samples": samples,
		"OutcomeChart": bars(outcomeBars(s)), "ExitChart": bars(exitBars(s)),
		"StepChart": histogram(s.Steps, "steps"), "TokenChart": histogram(s.Tokens, "tokens"),
		"TimeChart": bars(times), "TimeBars": times, "TimeMore": beyond(len(tasks), len(times)),
		"Tasks": tasks[:min(len(tasks), mostTaskRows)], "TasksMore": beyond(len(tasks), mostTaskRows),
	}
	return page.Execute(w, data)
}

// beyond is all when only a part is shown, else 0.
func beyond(all, shown int) int {
	if all > shown {
		return all
	}
	return 0
}

func outcomeBars(s *Summary) []bar {
	var list []bar
	for _, o := range record.Outcomes {
		if n := s.Outcomes[o]; n > 0 {
			list = append(list, bar{string(o), float64(n), share(n, s.Rollouts), class(o)})
		}
	}
	return list
}

func exitBars(s *Summary) []bar {
	var list []bar
	for _, e := range slices.Sorted(maps.Keys(s.Exits)) {
		name := e
		if name == "" {
			name = "(not played)"
		}
		list = append(list, bar{name, float64(s.Exits[e]), share(s.Exits[e], s.Rollouts), "plain"})
	}
	return list
}

func timeBars(tasks []record.TaskReport) []bar {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b record.TaskReport) int { return cmp.Compare(b.TotalMS, a.TotalMS) })
	var list []bar
	for _, t := range tasks[:min(len(tasks), mostTimeBars)] {
		list = append(list, bar{t.TaskID, float64(t.TotalMS), fmt.Sprintf("%.1f s", float64(t.TotalMS)/1000), "plain"})
	}
	return list
}

func share(n, all int64) string {
	return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(all))
}

func usage(u record.Usage) string {
	text := fmt.Sprintf("%d model calls", u.ModelCalls)
	if u.PromptTokens != nil && u.CompletionTokens != nil {
		text += fmt.Sprintf(", %s prompt and %s completion tokens", short(*u.PromptTokens), short(*u.CompletionTokens))
	}
	if u.CostUSD != nil {
		text += fmt.Sprintf(", $%.2f", *u.CostUSD)
	}
	return text + fmt.Sprintf(", %.0f s in sandboxes", float64(u.SandboxMS)/1000)
}

// trajectory is a rollout as the viewer shows it.
type trajectory struct {
	ID       string              `json:"id"`
	Task     string              `json:"task"`
	Index    int64               `json:"index"`
	Outcome  record.Outcome      `json:"outcome"`
	Reason   string              `json:"reason"`
	Exit     string              `json:"exit"`
	Policy   string              `json:"policy"`
	Harness  string              `json:"harness"`
	Steps    int                 `json:"steps"`
	Messages []turn              `json:"messages"`
	Diff     string              `json:"diff"`
	Tests    []record.TestResult `json:"tests"`
}

type turn struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning"`
	Calls     []tool `json:"calls"`
	Step      int64  `json:"step"`
	Kept      bool   `json:"kept"`
}

type tool struct {
	Name string `json:"name"`
	Args string `json:"args"`
}

func view(r record.Rollout) trajectory {
	t := trajectory{
		ID: r.RolloutID, Task: r.TaskID, Index: r.Index, Outcome: r.Verdict.Outcome, Reason: r.Verdict.Reason,
		Exit: r.Trajectory.ExitStatus, Policy: r.Policy, Harness: r.Harness, Steps: len(r.Trajectory.Steps),
		Messages: []turn{}, Diff: r.Trajectory.Diff.Value, Tests: r.Verdict.Tests,
	}
	if t.Tests == nil {
		t.Tests = []record.TestResult{}
	}
	for _, m := range r.Trajectory.Messages {
		u := turn{m.Role, m.Content, m.Reasoning, []tool{}, m.Step, m.Kept}
		for _, c := range m.ToolCalls {
			u.Calls = append(u.Calls, tool{c.Name, c.Arguments})
		}
		t.Messages = append(t.Messages, u)
	}
	return t
}

// script is a file that hands value to a function of the viewer. The JSON escapes what
// would end a script element.
func script(function string, value any) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("orchard."+function+"("), b...), ");\n"...), nil
}

// size is about how many bytes t takes in a script.
func (t trajectory) size() int {
	n := len(t.Diff) + 100*len(t.Tests)
	for _, m := range t.Messages {
		n += len(m.Content) + len(m.Reasoning) + 100
		for _, c := range m.Calls {
			n += len(c.Args)
		}
	}
	return n
}
