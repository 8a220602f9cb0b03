// Package gen makes web tasks of which it is known what a funnel has to do with each. It is
// for tests only, and shares no code with the filters: what is on which site, what says the
// same and what only looks so is true by construction, never by taking an address apart.
//
// Beside the plain rows it plants what is spelled otherwise and yet the same (www,
// subdomains, case, ports, the dot of the root, other scripts and their xn-- forms, Unicode
// in other shapes) and what looks the same and is not.
package gen

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"orchard/datasets/record"
)

// Funnel is how many rows there are of each kind.
type Funnel struct {
	EvalOverlap, Child, Voyager, Unpopular, Unique, Duplicates int
}

// Paper is the numbers of the paper: 292,092 -> 278,252 -> 254,815 -> 254,404 -> 140,055,
// and -> 15,601 without duplicates.
var Paper = Funnel{EvalOverlap: 13840, Child: 23437, Voyager: 411, Unpopular: 114349, Unique: 15601, Duplicates: 124454}

// Scale is the funnel at one part in n.
func (f Funnel) Scale(n int) Funnel {
	return Funnel{f.EvalOverlap / n, f.Child / n, f.Voyager / n, f.Unpopular / n, f.Unique / n, f.Duplicates / n}
}

// Total is all rows.
func (f Funnel) Total() int { return f.Kept() + f.EvalOverlap + f.Child + f.Voyager + f.Unpopular }

// Kept is the rows that no rule removes; removing duplicates is for another stage.
func (f Funnel) Kept() int { return f.Unique + f.Duplicates }

// Truth is what is known of a row.
type Truth struct {
	Reason string // the rule that removes it first; "" for a row that is kept
	Site   string // which owner's site it is on, as a name of its own
	Listed bool   // the site is on a list of popular ones
	Twin   string // the row that it says the same as; "" for none
	Plant  string // what was done to it
}

// Row is a task and the truth about it.
type Row struct {
	Task  record.Task
	Truth Truth
}

// The rules that rows are removed by.
const (
	EvalOverlap = "eval_overlap"
	Child       = "child_task"
	Voyager     = "webvoyager_intent"
	Unpopular   = "unpopular_site"
)

// World is the rows and what they are compared with.
type World struct {
	Funnel     Funnel
	SimilarWeb []string // sites, a line each
	Moz        []string
	Eval       []record.Task // evaluation sets
	WebVoyager []record.Task

	evalSites, listed, popular []site
}

// New makes a world; the same funnel gives the same.
func New(f Funnel) *World {
	w := &World{Funnel: f}
	for i := range 60 {
		w.evalSites = append(w.evalSites, numbered("eval", i))
	}
	for i := range 560 {
		s := numbered("top", i)
		w.listed = append(w.listed, s)
		if i < 100 {
			w.SimilarWeb = append(w.SimilarWeb, s.spelled(i))
		}
		if i >= 60 {
			w.Moz = append(w.Moz, s.spelled(i+3))
		}
	}
	for i := range max(1, f.Unique/5) { // so that each has at least two rows
		w.popular = append(w.popular, numbered("known", i))
	}
	for i := range 120 {
		w.Eval = append(w.Eval, w.task(fmt.Sprintf("eval-%d", i), w.evalSites[i%len(w.evalSites)].spelled(i), evalIntent(i)))
	}
	for i := range 64 {
		w.WebVoyager = append(w.WebVoyager, w.task(fmt.Sprintf("voyager--%d", i), w.listed[i%15].spelled(i), voyagerIntent(i)))
	}
	return w
}

func evalIntent(i int) string {
	return fmt.Sprintf("Compare the café prices of plan %d in Straße 5", i)
}
func voyagerIntent(i int) string {
	return fmt.Sprintf("Search for a naïve résumé template with %d pages and open it", i)
}

func (w *World) task(id, url, intent string) record.Task {
	return record.Task{
		TaskID: id, Source: "generated", Statement: intent, Raw: "{}",
		PreCommands: []string{}, TestCmds: []string{}, FailToPass: []string{}, PassToPass: []string{},
		Goal: &record.Goal{Kind: record.GoalWeb, StartURL: url, Site: url, Criteria: []record.Criterion{}, Files: []record.File{}},
	}
}

// Rows is all rows, kind after kind; their ids, by which a dataset orders them, are mixed.
func (w *World) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		n := 0
		for _, kind := range []struct {
			rows int
			make func(id string, i int) Row
		}{
			{w.Funnel.EvalOverlap, w.overlapping}, {w.Funnel.Child, w.child}, {w.Funnel.Voyager, w.voyager},
			{w.Funnel.Unpopular, w.lonely}, {w.Funnel.Unique, w.unique}, {w.Funnel.Duplicates, w.duplicate},
		} {
			for i := range kind.rows {
				if !yield(kind.make(id(n), i)) {
					return
				}
				n++
			}
		}
	}
}

// id is the id of the n-th row.
func id(n int) string { return fmt.Sprintf("%016x", rand.New(rand.NewPCG(uint64(n), 7)).Uint64()) }

func (w *World) row(id string, t Truth, url, intent string) Row {
	return Row{w.task(id, url, intent), t}
}

// overlapping rows are on an evaluation set's site, or say what one of its tasks says.
func (w *World) overlapping(id string, i int) Row {
	at := w.listed[i%len(w.listed)]
	t := Truth{Reason: EvalOverlap, Site: at.name, Listed: true}
	switch i % 4 {
	case 0:
		t.Plant = "an evaluation intent in another spelling"
		return w.row(id, t, at.spelled(i), respelled(evalIntent(i%120), i/4))
	case 1:
		if i < 4*120 {
			t.Plant = "an evaluation id in capitals"
			return w.row(strings.ToUpper(fmt.Sprintf("eval-%d", i/4)), t, at.spelled(i), own("asked", i))
		}
		fallthrough
	default:
		s := w.evalSites[i%len(w.evalSites)]
		t.Site, t.Listed, t.Plant = s.name, false, "an evaluation site: "+s.spelled(i)
		r := w.row(id, t, s.spelled(i), own("asked", i))
		if i%7 == 0 {
			r.Task.Goal.ParentID = "parent" // a later rule would remove it as well
		}
		return r
	}
}

// child rows are parts of others; half are on sites that nobody else is on, so that they
// must not count for those.
func (w *World) child(id string, i int) Row {
	s, listed := w.listed[i%len(w.listed)], true
	if i%2 == 0 && w.Funnel.Unpopular > 0 {
		s, listed = solo(i%w.Funnel.Unpopular), false
	}
	r := w.row(id, Truth{Reason: Child, Site: s.name, Listed: listed, Plant: "child"}, s.spelled(i), own("part", i))
	r.Task.Goal.ParentID = fmt.Sprintf("p%d", i)
	if i%5 == 0 {
		r.Task.Statement = voyagerIntent(i % 64) // a later rule would remove it as well
	}
	return r
}

// voyager rows say what a task of WebVoyager says.
func (w *World) voyager(id string, i int) Row {
	s, listed := w.listed[i%15], true
	if i%2 == 0 && w.Funnel.Unpopular > 0 {
		s, listed = solo(i%w.Funnel.Unpopular), false
	}
	t := Truth{Reason: Voyager, Site: s.name, Listed: listed, Plant: "WebVoyager's intent in another spelling"}
	return w.row(id, t, s.spelled(i), respelled(voyagerIntent(i%64), i))
}

// lonely rows are on a site that no other row that comes so far is on.
func (w *World) lonely(id string, i int) Row {
	s := solo(i)
	url, plant := w.lookalike(s, i)
	return w.row(id, Truth{Reason: Unpopular, Site: s.name, Plant: plant}, url, almost(i))
}

// home is the site of the u-th unique row.
func (w *World) home(u int) (s site, listed bool) {
	if u%2 == 0 {
		return w.listed[u/2%len(w.listed)], true
	}
	return w.popular[u/2%len(w.popular)], false
}

func (w *World) unique(id string, u int) Row {
	s, listed := w.home(u)
	url, plant := s.spelled(u), "plain"
	if !listed && u%5 == 0 {
		url, plant = w.lookalike(s, u)
	}
	return w.row(id, Truth{Site: s.name, Listed: listed, Plant: plant}, url, almost(u)+own(" kept", u))
}

// duplicate rows say what a unique row says, on the same site.
func (w *World) duplicate(id_ string, i int) Row {
	first := w.Funnel.Total() - w.Funnel.Kept()
	u := i % max(1, w.Funnel.Unique)
	s, listed := w.home(u)
	t := Truth{Site: s.name, Listed: listed, Twin: id(first + u), Plant: "duplicate"}
	return w.row(id_, t, s.spelled(i), respelled(almost(u)+own(" kept", u), i))
}
