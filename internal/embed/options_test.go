package embed

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"orchard/internal/embed/embedtest"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	if o := (Options{Batch: 1}); o.Validate() != nil || o.Asks() || o.Name() != NgramMethod {
		t.Errorf("%+v: %v, %s", o, o.Validate(), o.Name())
	}
	o := Options{Model: "e", Batch: 1}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--embedding-model: --llm-url") || o.Name() != "model e" {
		t.Errorf("%v, %s", err, o.Name())
	}
	for _, batch := range []int{0, -1, 2049} {
		if err := (Options{Batch: batch}).Validate(); err == nil || !strings.Contains(err.Error(), "--embedding-batch") {
			t.Errorf("%d: %v", batch, err)
		}
	}
	if _, err := o.Open("out", 1, nil); exit.Code(err) != exit.Config {
		t.Errorf("no server: %v", err)
	}
}

// Without a server nobody is asked and nothing is stored; with one its answers are, beside
// the result, once there is a text.
func TestSource(t *testing.T) {
	t.Parallel()
	never := func(context.Context, string) (objstore.Store, error) { return nil, errors.New("opened") }
	s, err := Options{}.Open("out", 1, never)
	if err != nil || s.Check(t.Context()) != nil {
		t.Fatal(err)
	}
	if v, err := s.Embed(t.Context(), []string{"one two", ""}); err != nil || !slices.Equal(v[0], Ngram("one two")) || len(v) != 2 {
		t.Errorf("%v, %v", v, err)
	}
	url, asked := embedtest.Server(t, func(text string) any { return []int{len(text), 1} })
	o := Options{Model: "e", Batch: 2}
	o.LLM.URL = url
	store, root, opened := new(mem.Store), "", 0
	if s, err = o.Open("s3://b/p/out", 2, func(_ context.Context, r string) (objstore.Store, error) {
		root = r
		opened++
		return store, nil
	}); err != nil || s.Check(t.Context()) != nil || root != "" {
		t.Fatal(err, root)
	}
	for range 2 {
		if v, err := s.Embed(t.Context(), []string{"a", "bb", "ccc"}); err != nil || v[2][0] != 3 || root != "s3://b/p" {
			t.Errorf("%v, %v, %s", v, err, root)
		}
	}
	if got := strings.Join(asked(), " "); got != "a bb ccc ping" || opened != 1 {
		t.Errorf("asked for %s, opened %d times", got, opened)
	}
	if _, _, err := objstore.ReadAll(t.Context(), store, s.cache.Key("bb"), 1<<10); err != nil || !strings.HasPrefix(s.cache.Key("bb"), "out/embeddings/") {
		t.Errorf("%s: %v", s.cache.Key("bb"), err)
	}
	if s, err = o.Open("s3://b/p/out", 2, never); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Embed(t.Context(), []string{"a"}); err == nil || err.Error() != "opened" {
		t.Error(err)
	}
}

func TestLength(t *testing.T) {
	t.Parallel()
	var l Length
	if err := errors.Join(l.Fit("task a", []float32{1, 2}), l.Fit("task b", []float32{3, 4})); err != nil {
		t.Error(err)
	}
	err := l.Fit("task c", []float32{1})
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "the embedding of task c has 1 numbers and that of task a 2: one model gives one length") {
		t.Error(err)
	}
}
