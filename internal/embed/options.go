// Package embed makes vectors of texts: by the embeddings of a model server, each asked for
// once and then kept in a store, or without a server by hashing n-grams.
//
// The vectors are as they come, of any length; whether they are fit for a cosine is
// for those who take one to see.
package embed

import (
	"context"
	"fmt"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/llm"
)

// Options say where vectors come from. The zero value hashes n-grams.
type Options struct {
	LLM   llm.Options // of the server; its Model is not looked at
	Model string      // "" is hashed n-grams
	Batch int         // texts in one request at most
}

// DefaultBatch is how many texts go into a request when nothing else is said.
const DefaultBatch = 64

// Asks says whether a model server is asked.
func (o Options) Asks() bool { return o.Model != "" }

// Name is what decides the vectors of a text, for settings: NgramMethod, or "model " and
// its name.
func (o Options) Name() string {
	if o.Asks() {
		return "model " + o.Model
	}
	return NgramMethod
}

// Validate says what is wrong, by the names of the flags.
func (o Options) Validate() error {
	if o.Batch < 1 || o.Batch > 2048 {
		return fmt.Errorf("--embedding-batch: %d must be 1 to 2048", o.Batch)
	}
	if o.Asks() {
		if err := o.server().Validate(); err != nil {
			return fmt.Errorf("--embedding-model: %w", err)
		}
	}
	return nil
}

func (o Options) server() llm.Options {
	s := o.LLM
	s.Model = o.Model
	return s
}

// Source makes vectors. Its errors say how a stage ends that cannot go on without them.
type Source struct {
	client *llm.Client // nil without a server
	cache  *Cached
	open   datasets.Opener
	root   string // of the store
}

// Open is a source for a stage that writes to out: a server's answers are kept beside its
// result. The store is opened when the first text is there.
func (o Options) Open(out string, workers int, open datasets.Opener) (*Source, error) {
	if !o.Asks() {
		return &Source{}, nil
	}
	client, err := llm.New(o.server())
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	where, err := datasets.Parse(out)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	cache := &Cached{Server: client, Model: o.Model, Prefix: datasets.EmbeddingsPrefix(where.Name), Batch: o.Batch, Workers: workers}
	return &Source{client: client, cache: cache, open: open, root: where.Root}, nil
}

// Check asks the server for something, to find out whether it answers.
func (s *Source) Check(ctx context.Context) error {
	if s.client == nil {
		return nil
	}
	_, err := s.client.Embeddings(ctx, []string{"ping"})
	return llm.Exit(err)
}

// Embed is the vectors of texts, in their order. That of a text that is too long for the
// model is nil. For one goroutine.
func (s *Source) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if s.client == nil {
		return ngrams(ctx, texts)
	}
	if s.cache.Store == nil {
		store, err := s.open(ctx, s.root)
		if err != nil {
			return nil, err
		}
		s.cache.Store = store
	}
	out, err := s.cache.Embed(ctx, texts)
	return out, llm.Exit(err)
}

func ngrams(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = Ngram(text)
	}
	return out, nil
}

// Length is how many numbers the vectors of one source have: as many as the first.
type Length struct {
	n  int
	of string
}

// Fit is an error unless v, the vector of what is named so, is as long as the others.
func (l *Length) Fit(name string, v []float32) error {
	if l.of == "" {
		l.n, l.of = len(v), name
	}
	if len(v) != l.n {
		return exit.Inputf("the embedding of %s has %d numbers and that of %s %d: one model gives one length; check --llm-url and --embedding-model, "+
			"and use another --out when the model was changed under its name", name, len(v), l.of, l.n)
	}
	return nil
}
