package embed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/llm"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
)

// server counts what it is asked for: the vector of a text is its length and its number.
type server struct {
	mu    sync.Mutex
	asked []string
	most  int // texts longer than this are too long; 0 is no limit
	fail  int // the call with this number, from 1, fails
	calls int
	short bool
}

func (s *server) Embeddings(_ context.Context, texts []string) ([][]float32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.calls == s.fail {
		return nil, &llm.Error{Class: llm.Transient, Detail: "killed"}
	}
	var out [][]float32
	for _, t := range texts {
		if s.most > 0 && len(t) > s.most {
			return nil, &llm.Error{Class: llm.TooLong}
		}
		s.asked = append(s.asked, t)
		out = append(out, []float32{float32(len(t)), float32(len(s.asked))})
	}
	if s.short {
		out = out[1:]
	}
	return out, nil
}

func cached(s *server, store objstore.Store) *Cached {
	return &Cached{Server: s, Model: "m", Store: store, Prefix: "tasks/embeddings/", Batch: 3, Workers: 2}
}

// Of equal texts one is asked for, and none is asked for twice, also by another process.
func TestEachTextIsAskedForOnce(t *testing.T) {
	t.Parallel()
	store, s := new(mem.Store), &server{}
	texts := []string{"a", "bb", "a", "ccc", "dddd", "bb", "", "eeeee"}
	first, err := cached(s, store).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if first[i][0] != float32(len(text)) {
			t.Errorf("%q has the vector %v", text, first[i])
		}
	}
	again, err := cached(s, store).Embed(t.Context(), append(texts, "new"))
	if err != nil || !slices.EqualFunc(again[:len(texts)], first, slices.Equal) {
		t.Errorf("again %v, first %v, %v", again, first, err)
	}
	slices.Sort(s.asked)
	if got := strings.Join(s.asked, "|"); got != "|a|bb|ccc|dddd|eeeee|new" {
		t.Errorf("asked for %s", got)
	}
	other := cached(s, store)
	other.Model = "n"
	if v, err := other.Embed(t.Context(), []string{"a"}); err != nil || v[0][1] == first[0][1] {
		t.Errorf("another model is given the vectors of this one: %v, %v", v, err)
	}
}

// Killed at any request and started again, the cache asks for what is missing alone.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 20 {
		texts = append(texts, fmt.Sprint("text ", i))
	}
	for fail := 1; fail <= 7; fail++ {
		store, s := new(mem.Store), &server{fail: fail}
		c := cached(s, store)
		c.Workers = 1
		if _, err := c.Embed(t.Context(), texts); !llm.Is(err, llm.Transient) {
			t.Fatalf("call %d: %v", fail, err)
		}
		if _, err := c.Embed(t.Context(), texts); err != nil {
			t.Fatal(err)
		}
		if len(s.asked) != len(texts) {
			t.Errorf("call %d failed: %d texts were asked for, want %d", fail, len(s.asked), len(texts))
		}
	}
}

func TestTooLongTexts(t *testing.T) {
	t.Parallel()
	s := &server{most: 4}
	c := cached(s, new(mem.Store))
	c.Batch = 8
	v, err := c.Embed(t.Context(), []string{"a", "too long", "bb", "ccc", "dddd", "eeeee"})
	if err != nil || v[1] != nil || v[5] != nil || v[0] == nil || v[2] == nil || v[3] == nil || v[4] == nil {
		t.Errorf("%v, %v", v, err)
	}
}

func TestBadAnswersAndObjects(t *testing.T) {
	t.Parallel()
	if _, err := cached(&server{short: true}, new(mem.Store)).Embed(t.Context(), []string{"a", "b"}); err == nil || err.Error() != "asked for 2 vectors, got 1" {
		t.Errorf("fewer than asked: %v", err)
	}
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)-4] },
		func(b []byte) []byte { return b[:0] },
		func(b []byte) []byte { b[6] ^= 1; return b },
		func(b []byte) []byte { b[0] ^= 1; return b },
	} {
		store := new(mem.Store)
		c := cached(&server{}, store)
		if _, err := store.Create(t.Context(), c.Key("a"), objstore.Bytes(damage(encode([]float32{1, 2})))); err != nil {
			t.Fatal(err)
		}
		_, err := c.Embed(t.Context(), []string{"a"})
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), c.Key("a")+": is damaged; delete it") {
			t.Errorf("damaged: %v", err)
		}
	}
	nan := float32(math.NaN())
	if v, ok := decode(encode([]float32{1, nan, -0.5})); !ok || v[0] != 1 || v[1] == v[1] || v[2] != -0.5 {
		t.Errorf("%v, %v", v, ok)
	}
	if _, _, err := objstore.ReadAll(t.Context(), new(mem.Store), "x", 1); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestNgram(t *testing.T) {
	t.Parallel()
	cos := func(a, b string) float64 {
		x, y := Ngram(a), Ngram(b)
		var xy, xx, yy float64
		for i := range x {
			xy, xx, yy = xy+float64(x[i])*float64(y[i]), xx+float64(x[i])*float64(x[i]), yy+float64(y[i])*float64(y[i])
		}
		return xy / math.Sqrt(xx*yy)
	}
	a := "when the parser meets an empty header it reads past the end of the buffer and panics"
	if c := cos(a, strings.Replace(a, "panics", "panicked", 1)); c < 0.9 || c > 0.999 {
		t.Errorf("nearly the same words have cosine %v", c)
	}
	if c := cos(a, "sorting a table by two of its columns forgets the first of them"); c > 0.5 {
		t.Errorf("other words have cosine %v", c)
	}
	for _, v := range Ngram("") {
		if v != 0 {
			t.Fatal("nothing has a vector")
		}
	}
	for _, text := range []string{"a", "+", "ab", "日"} {
		if slices.Max(Ngram(text)) == 0 && slices.Min(Ngram(text)) == 0 {
			t.Errorf("%q has no vector", text)
		}
	}
	for range 20 { // maps yield in any order
		if !slices.Equal(Ngram(a), Ngram(a)) {
			t.Fatal("two vectors of one text")
		}
	}
}
