package contamination

import (
	"context"
	"fmt"

	"orchard/datasets/record"
	"orchard/internal/cosine"
	"orchard/internal/embed"
	"orchard/internal/exit"
	"orchard/internal/wording"
)

// Embed makes the vectors of texts, in their order; that of a text that is too long for the
// model is nil.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// Meanings is the statements of evaluation sets as vectors, which it holds in memory: what
// StatementCosine compares with. Add everything, and then Ready, before the first Match.
// For one goroutine.
type Meanings struct {
	embed   Embed
	options cosine.Options

	asked  []saying // evaluation tasks whose vectors are not there yet
	sets   []string // in the order in which they came
	near   *cosine.Near
	of     []saying // by number in near, without their texts
	length embed.Length
}

// saying is what an evaluation task says.
type saying struct{ set, id, text string }

func (s saying) name() string { return fmt.Sprintf("evaluation task %s of %s", s.id, s.set) }

// NewMeanings compares with nothing yet. As close as tau is too near.
func NewMeanings(tau float64, workers int, embed Embed) *Meanings {
	return &Meanings{embed: embed, options: cosine.Options{Tau: tau, Workers: workers}}
}

// asking is how many evaluation statements are embedded together.
const asking = 512

// Add puts a task of an evaluation set in. One without a statement is near to nothing.
func (m *Meanings) Add(ctx context.Context, set string, t *record.Task) error {
	if len(m.sets) == 0 || m.sets[len(m.sets)-1] != set {
		m.sets = append(m.sets, set)
	}
	if text := wording.Normal(t.Statement); text != "" {
		m.asked = append(m.asked, saying{set, t.TaskID, text})
	}
	if len(m.asked) < asking {
		return nil
	}
	return m.keep(ctx)
}

// Ready ends adding. A set in which no task has a statement is an error, for everything would
// be clean beside it.
func (m *Meanings) Ready(ctx context.Context) error {
	if err := m.keep(ctx); err != nil {
		return err
	}
	has := map[string]bool{}
	for _, s := range m.of {
		has[s.set] = true
	}
	for _, set := range m.sets {
		if !has[set] {
			return exit.Inputf("no task of %s has a statement; comparing with it by %s would call everything clean", set, StatementCosine)
		}
	}
	return nil
}

// keep makes the vectors of what was added. What has none that can be compared is an error:
// tasks near it would be called clean.
func (m *Meanings) keep(ctx context.Context) error {
	texts := make([]string, len(m.asked))
	for i, s := range m.asked {
		texts[i] = s.text
	}
	units, err := m.units(ctx, texts, func(i int) string { return m.asked[i].name() })
	if err != nil {
		return err
	}
	for i, s := range m.asked {
		if units[i] == nil {
			return exit.Inputf("%s: its statement is too long for the embedding model, and tasks near it would be called clean; "+
				"take a model for longer texts, or an evaluation set without it", s.name())
		}
		if m.near == nil {
			if m.near, err = cosine.NewNear(len(units[i]), m.options); err != nil {
				return err
			}
		}
		if err := m.near.Keep(units[i]); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
		m.of = append(m.of, saying{set: s.set, id: s.id})
	}
	m.asked = nil
	return nil
}

// units is the vectors of texts at length one, nil for a text that is too long. All others
// can be compared: anything else is an error.
func (m *Meanings) units(ctx context.Context, texts []string, name func(int) string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	raw, err := m.embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(raw) != len(texts) {
		return nil, exit.Configf("asked for the embeddings of %d texts, got %d", len(texts), len(raw))
	}
	for i, v := range raw {
		if v == nil {
			continue
		}
		if err := m.length.Fit(name(i), v); err != nil {
			return nil, err
		}
		if raw[i], err = cosine.Unit(v); err != nil {
			return nil, exit.Inputf("the embedding of %s has no cosine: %w; mend the model, and delete the folder embeddings beside the result, or use another --out", name(i), err)
		}
	}
	return raw, nil
}

// Answer is what a check says of a task.
type Answer struct {
	Found   []Match // at most one for each evaluation set: the nearest
	Unknown []Unknown
}

// Match compares tasks, each with everything that was added.
func (m *Meanings) Match(ctx context.Context, tasks []*record.Task) ([]Answer, error) {
	out := make([]Answer, len(tasks))
	unknown := func(i int, why string) { out[i].Unknown = []Unknown{{StatementCosine, why}} }
	var texts []string
	var at []int // which task each text, and later each vector, is of
	for i, t := range tasks {
		if text := wording.Normal(t.Statement); text != "" {
			texts, at = append(texts, text), append(at, i)
		} else {
			unknown(i, "the task has no statement")
		}
	}
	all, err := m.units(ctx, texts, func(i int) string { return "task " + tasks[at[i]].TaskID })
	if err != nil {
		return nil, err
	}
	var units [][]float32
	var of []int
	for i, u := range all {
		if u == nil {
			unknown(at[i], "its statement is too long for the embedding model")
		} else {
			units, of = append(units, u), append(of, at[i])
		}
	}
	if len(units) == 0 || m.near == nil {
		return out, nil
	}
	hits, err := m.near.Find(ctx, units)
	if err != nil {
		return nil, err
	}
	for i, list := range hits {
		var found []Match
		for _, h := range list {
			e := m.of[h.Key]
			found = append(found, Match{TaskID: tasks[of[i]].TaskID, EvalSet: e.set, EvalID: e.id, Rule: StatementCosine, Score: rounded(h.Score)})
		}
		out[of[i]].Found = Merge(found)
	}
	return out, nil
}
