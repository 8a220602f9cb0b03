package report

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/evaluation"
	"orchard/internal/stats"
)

//go:embed page/report.html
var pageHTML string

//go:embed page/compare.html
var compareHTML string

//go:embed page/report.css
var pageCSS string

//go:embed page/report.js
var pageJS string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"class": class, "short": short, "seconds": seconds,
	"printable": printable, "outcome": func(o record.Outcome) string { return printable(string(o)) },
	"mean": func(sum, n int64) string { return fmt.Sprintf("%.1f", float64(sum)/float64(n)) },
	"rate": func(t record.TaskReport) float64 {
		if t.Known == 0 {
			return -1 // sorts before 0
		}
		return 100 * float64(t.Resolved) / float64(t.Known)
	},
	"percent": evaluation.Percent, "matrix": matrixCell,
	"optional": func(v *float64) string {
		if v == nil {
			return "–"
		}
		return evaluation.Points(*v)
	},
	"bounds": func(i *stats.Interval) string {
		if i == nil {
			return "–"
		}
		return evaluation.Range(*i)
	},
	"ids": func(name, class string, ids []string) idList {
		shown := changed(ids)
		return idList{name, class, shown, len(ids), len(ids) - len(shown)}
	},
}).Parse(pageHTML + compareHTML))

// idList is tasks that changed in one way.
type idList struct {
	Name, Class string
	Shown       []string
	All, More   int
}

const (
	mostTimeBars = 25
	mostTaskRows = 500
	mostValues   = 20 // of a dimension, such as languages
)

// number is a step of the funnel.
type number struct {
	Name  string
	Value int64
}

// group is the resolve rate by the values of a dimension.
type group struct {
	Name string
	Bars []bar
	More int // how many values there are when not all are shown
}

// pageData is what page/report.html is given. The policy of the page's head lets
// nothing run or style but the script and the sheet with these two hashes, and the
// script files beside the page.
type pageData struct {
	Title, Policies, Harnesses, Usage string
	Headlines                         []string
	Compared                          comparison

	CSS               template.CSS
	JS                template.JS
	CSSHash, JSHash   string
	Samples           []trajectory
	Funnel            []number
	Outcomes, Exits   []bar
	Split, Times      []bar
	Steps, Tokens     histogram
	Groups            []group
	Tasks             []record.TaskReport
	TimeMore, TaskAll int // how many tasks there are when not all are shown, else 0
}

// writePage writes report.html. Samples are the trajectories that lie in the page itself.
func writePage(w io.Writer, title string, s *Summary, samples []trajectory) error {
	if samples == nil {
		samples = []trajectory{}
	}
	tasks := s.Tasks()
	data := pageData{
		Title: title, Headlines: headlines(s.Analysis()), Compared: compared(s.Analysis()), Policies: s.names("policy"), Harnesses: s.names("harness"), Usage: usage(s.Usage),
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS), CSSHash: hash(pageCSS), JSHash: hash(pageJS), Samples: samples,
		Funnel: s.funnel(), Outcomes: outcomeBars(s), Exits: exitBars(s), Split: splitBars(s), Times: timeBars(tasks),
		Steps: spread(s.Steps, "steps"), Tokens: spread(s.Tokens, "tokens"), Groups: groups(s),
		Tasks: tasks[:min(len(tasks), mostTaskRows)], TimeMore: beyond(len(tasks), mostTimeBars), TaskAll: beyond(len(tasks), mostTaskRows),
	}
	return page.Execute(w, data)
}

// hash names an inline script or sheet in a content security policy.
func hash(text string) string {
	h := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(h[:])
}

// beyond is all when only a part is shown, else 0.
func beyond(all, shown int) int {
	if all > shown {
		return all
	}
	return 0
}

func (s *Summary) funnel() []number {
	var list []number
	if s.TasksIn > 0 {
		list = append(list, number{"tasks", s.TasksIn})
	}
	list = append(list, number{"rollouts", s.Rollouts}, number{"with a reward", s.Known}, number{"resolved", s.Resolved})
	if s.Missing > 0 {
		list = append(list, number{"not finished, left out", s.Missing})
	}
	if s.SFTRows >= 0 {
		list = append(list, number{"SFT rows", s.SFTRows})
	}
	return list
}

func outcomeBars(s *Summary) []bar {
	var list []bar
	for _, o := range s.occurred() {
		list = append(list, bar{Label: string(o), Text: share(s.Outcomes[o], s.Rollouts), Class: class(o), value: float64(s.Outcomes[o])})
	}
	return relative(list)
}

func exitBars(s *Summary) []bar {
	var list []bar
	order := slices.SortedFunc(maps.Keys(s.Exits), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Exits[b], s.Exits[a]), cmp.Compare(a, b))
	})
	for _, e := range order {
		list = append(list, bar{Label: cmp.Or(e, "(not played)"), Text: share(s.Exits[e], s.Rollouts), Class: "plain", value: float64(s.Exits[e])})
	}
	return relative(list)
}

func splitBars(s *Summary) []bar {
	always, sometimes, never, unknown := s.split()
	var list []bar
	for _, b := range []bar{
		{Label: "always", Class: "good", value: float64(always)},
		{Label: "sometimes", Class: "some", value: float64(sometimes)},
		{Label: "never", Class: "bad", value: float64(never)},
		{Label: "no reward", Class: "none", value: float64(unknown)},
	} {
		if b.value > 0 {
			b.Text = share(int64(b.value), int64(len(s.tasks)))
			list = append(list, b)
		}
	}
	return relative(list)
}

func timeBars(tasks []record.TaskReport) []bar {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b record.TaskReport) int { return cmp.Compare(b.TotalMS, a.TotalMS) })
	var list []bar
	for _, t := range tasks[:min(len(tasks), mostTimeBars)] {
		text := seconds(t.TotalMS)
		if t.Rollouts > 1 {
			text += fmt.Sprintf(" (%d × %s)", t.Rollouts, seconds(t.TotalMS/t.Rollouts))
		}
		list = append(list, bar{Label: t.TaskID, Text: text, Class: "plain", value: float64(t.TotalMS)})
	}
	return relative(list)
}

// groups is every dimension in which the rollouts differ, the values with the most
// rollouts first.
func groups(s *Summary) []group {
	var list []group
	for _, d := range dimensions {
		values := s.groups[d]
		if len(values) < 2 {
			continue
		}
		order := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
			return cmp.Or(cmp.Compare(values[b].rollouts, values[a].rollouts), cmp.Compare(a, b))
		})
		g := group{Name: d, More: beyond(len(order), mostValues)}
		for _, v := range order[:min(len(order), mostValues)] {
			b := bar{Label: cmp.Or(v, "(none)"), Text: "no reward", Class: "good"}
			if r := values[v]; r.known > 0 {
				i := stats.Wilson(r.resolved, r.known)
				b.Length, b.Lo, b.Hi = 100*float64(r.resolved)/float64(r.known), 100*i.Lo, 100*i.Hi
				b.Text = fmt.Sprintf("%.0f %% (%d of %d)", b.Length, r.resolved, r.known)
			}
			g.Bars = append(g.Bars, b)
		}
		list = append(list, g)
	}
	return list
}

func share(n, all int64) string {
	return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(all))
}

// seconds writes milliseconds for people.
func seconds(ms int64) string {
	switch s := float64(ms) / 1000; {
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.1f min", s/60)
	default:
		return fmt.Sprintf("%.1f h", s/3600)
	}
}

func usage(u record.Usage) string {
	text := fmt.Sprintf("%d model calls", u.ModelCalls)
	if u.PromptTokens != nil && u.CompletionTokens != nil {
		text += fmt.Sprintf(" · %s prompt and %s completion tokens", short(*u.PromptTokens), short(*u.CompletionTokens))
	}
	if u.CostUSD != nil {
		text += fmt.Sprintf(" · $%.2f", *u.CostUSD)
	}
	return text + " · " + seconds(u.SandboxMS) + " in sandboxes"
}
