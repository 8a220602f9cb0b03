package dedup

import (
	"context"
	"errors"

	"orchard/internal/cosine"
	"orchard/internal/embed"
)

// exactFinder finds equal texts.
type exactFinder struct {
	text func(row int) string
	kept map[string]int
}

func (f *exactFinder) Prepare(context.Context, []int) error { return nil }
func (f *exactFinder) Refuse(int) string                    { return "" }
func (f *exactFinder) Forget([]int)                         {}

func (f *exactFinder) First(row int) (twin int, score float64, found bool) {
	twin, found = f.kept[f.text(row)]
	return twin, 1, found
}

func (f *exactFinder) Keep(row int) {
	if text := f.text(row); text != "" { // nothing is no duplicate of nothing
		f.kept[text] = row
	}
}

// semanticFinder gets vectors for the texts of a block and finds close ones.
type semanticFinder struct {
	*cosine.Finder
	text  func(row int) string
	name  func(row int) string
	embed func(ctx context.Context, texts []string) ([][]float32, error)

	length  embed.Length
	refused map[int]string // of the block
	beside  map[int]bool   // of the block: cannot be compared, and stays
	tooLong map[int]bool   // of all rows: over what the model takes
}

func (f *semanticFinder) Prepare(ctx context.Context, rows []int) error {
	var with []int
	var texts []string
	for _, row := range rows {
		if text := f.text(row); text == "" {
			f.beside[row] = true
		} else {
			with, texts = append(with, row), append(texts, text)
		}
	}
	raw, err := f.embed(ctx, texts)
	if err != nil {
		return err
	}
	var fit []int
	var vectors [][]float32
	for i, row := range with {
		if raw[i] == nil {
			f.beside[row], f.tooLong[row] = true, true
			continue
		}
		if err := f.length.Fit("task "+f.name(row), raw[i]); err != nil {
			return err
		}
		u, err := cosine.Unit(raw[i])
		switch {
		case errors.Is(err, cosine.ErrZero):
			f.refused[row] = ReasonZero
		case errors.Is(err, cosine.ErrNotFinite):
			f.refused[row] = ReasonNotFinite
		default:
			fit, vectors = append(fit, row), append(vectors, u)
		}
	}
	return f.Finder.Prepare(ctx, fit, vectors)
}

func (f *semanticFinder) First(row int) (twin int, score float64, found bool) {
	if f.beside[row] || f.refused[row] != "" {
		return 0, 0, false
	}
	return f.Finder.First(row)
}

func (f *semanticFinder) Refuse(row int) string { return f.refused[row] }

func (f *semanticFinder) Keep(row int) {
	if !f.beside[row] {
		f.Finder.Keep(row)
	}
}

func (f *semanticFinder) Forget(rows []int) {
	clear(f.refused)
	clear(f.beside)
	f.Finder.Forget(rows)
}
