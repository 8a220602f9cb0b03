package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/seal"
)

type note struct {
	ID   string      `json:"id"`
	Text record.Text `json:"text"`
}

func (n note) Key() string         { return n.ID }
func (note) Schema() (string, int) { return "note", 1 }

var ctx = context.Background()

// helper is *testing.T or *rapid.T.
type helper interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t helper, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commit makes a version whose rows have the texts; long ones become blobs.
func commit(t helper, s objstore.Store, name string, seed int64, texts []string, inputs ...datasets.Input) *datasets.Version {
	t.Helper()
	w, err := datasets.NewWriter[note](s, name, datasets.WriterOptions{ShardBytes: 1})
	must(t, err)
	defer w.Close()
	for i, text := range texts {
		kept, err := datasets.Keeper{Store: s, Limit: 8}.Keep(ctx, []byte(text))
		must(t, err)
		must(t, w.Write(ctx, note{fmt.Sprintf("%04d", i), kept}))
	}
	digest, _, err := w.Commit(ctx, datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1, Seed: seed}, RowsIn: int64(len(texts)), Inputs: inputs})
	must(t, err)
	v, err := datasets.OpenIn(ctx, s, name, digest)
	must(t, err)
	return v
}

func keys(t helper, s objstore.Store) []string {
	var out []string
	for info, err := range s.List(ctx, "") {
		must(t, err)
		out = append(out, info.Key)
	}
	return out
}

func put(t helper, s objstore.Store, key, text string) {
	t.Helper()
	_, err := s.Create(ctx, key, objstore.Bytes(text))
	must(t, err)
}

// later is the clock of a collection long after everything was written.
func later() time.Time { return time.Now().Add(30 * 24 * time.Hour) }

func collectAll(t helper, s objstore.Store) *Plan {
	t.Helper()
	p, err := Find(ctx, s, Options{Now: later})
	must(t, err)
	_, err = p.Delete(ctx)
	must(t, err)
	return p
}

func wholeAll(t helper, s objstore.Store) {
	t.Helper()
	names, err := datasets.Names(ctx, s)
	must(t, err)
	for _, name := range names {
		for v, err := range datasets.Versions(ctx, s, name) {
			must(t, err)
			r, err := datasets.Verify(ctx, v)
			must(t, err)
			if len(r.Problems) > 0 {
				t.Fatalf("%s is damaged: %v", v.Location(), r.Problems)
			}
		}
	}
}

// TestNothingReachableIsDeleted makes a random root (datasets that share blobs, versions
// made of others, garbage of every kind in between), and collects it. What was there
// before the garbage is there after, and the garbage is not.
func TestNothingReachableIsDeleted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &mem.Store{}
		texts := []string{"short", "", "a text that is a blob", "another text that is a blob", "a third one, longer than the others", "one more blob than that"}
		var versions []*datasets.Version
		for i := range rapid.IntRange(1, 8).Draw(t, "versions") {
			name := rapid.SampledFrom([]string{"tasks", "rollouts", "sft"}).Draw(t, "name")
			rows := rapid.SliceOfN(rapid.SampledFrom(texts), 0, 4).Draw(t, "rows")
			var inputs []datasets.Input
			if len(versions) > 0 && rapid.Bool().Draw(t, "derived") {
				inputs = append(inputs, rapid.SampledFrom(versions).Draw(t, "parent").Input("in"))
			}
			versions = append(versions, commit(t, s, name, int64(i), rows, inputs...))
		}
		live := keys(t, s)
		var garbage []string
		add := func(key string) { put(t, s, key, "x"); garbage = append(garbage, key) }
		for i := range rapid.IntRange(0, 12).Draw(t, "garbage") {
			sha := seal.ID(fmt.Sprint(i))
			name := rapid.SampledFrom([]string{"tasks", "rollouts", "gone"}).Draw(t, "of")
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 0:
				add("blobs/" + sha)
			case 1:
				add(name + "/data/" + sha + ".arrow")
			case 2:
				add(name + "/data/" + sha + ".blobs")
			case 3:
				add(name + "/units/" + sha + "/unit.json")
			case 4:
				add(name + "/files/" + sha + "/sft.jsonl")
				add(name + "/files/" + sha + ".json")
			case 5:
				add(name + "/keys/" + sha)
			case 6:
				add(name + "/versions/" + sha + "/README.md")
			case 7: // of work that is done
				v := rapid.SampledFrom(versions).Draw(t, "done")
				key := fmt.Sprintf("%s/units/%s/%d.json", v.Location().Name, v.Manifest().Key, i)
				add(key)
			}
		}
		foreign := []string{"notes.txt", "tasks/other/thing", "blobs/short", "tasks/data/x.arrow"}
		for _, key := range foreign {
			put(t, s, key, "mine")
		}
		p := collectAll(t, s)
		left := map[string]bool{}
		for _, key := range keys(t, s) {
			left[key] = true
		}
		for _, key := range append(live, foreign...) {
			if !left[key] {
				t.Fatalf("%s was deleted", key)
			}
		}
		for _, key := range garbage {
			if left[key] {
				t.Fatalf("%s is still there", key)
			}
		}
		if len(p.Garbage) != len(garbage) || p.Foreign != len(foreign) {
			t.Fatalf("found %d pieces of garbage and %d others, want %d and %d", len(p.Garbage), p.Foreign, len(garbage), len(foreign))
		}
		wholeAll(t, s)
	})
}

// TestYoungStays: nothing that was written within the age goes, nor what unfinished work
// names, be it as old as it may.
func TestYoungStays(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	commit(t, s, "tasks", 1, []string{"a"})
	put(t, s, "blobs/"+seal.ID("x"), "x")
	p, err := Find(ctx, s, Options{Now: func() time.Time { return time.Now().Add(6 * 24 * time.Hour) }})
	must(t, err)
	if len(p.Garbage) != 0 || p.Young != 1 {
		t.Errorf("%d pieces of garbage, %d young", len(p.Garbage), p.Young)
	}

	// A run whose last unit is young is going on: all its units stay, and every blob that
	// they name, also by way of a row that is a blob itself.
	aged := &agedStore{Store: s, age: map[string]time.Duration{}}
	old, deep, row := seal.ID("named"), seal.ID("deep"), ""
	row, err = datasets.PutBlob(ctx, s, []byte(`{"row":{"blob":"`+deep+`"}}`))
	must(t, err)
	units := "rollouts/units/" + seal.ID("work")
	put(t, s, "blobs/"+old, "x")
	put(t, s, "blobs/"+deep, "x")
	put(t, s, units+"/first.json", `{"row":{"patch":{"blob":"`+old+`"}}}`)
	put(t, s, units+"/second.json", `{"row_blob":"`+row+`"}`)
	put(t, s, units+"/third.json", `{}`)
	for _, key := range keys(t, s) {
		aged.age[key] = 30 * 24 * time.Hour
	}
	delete(aged.age, units+"/third.json")
	p, err = Find(ctx, aged, Options{})
	must(t, err)
	if got := garbageKeys(p); !slices.Equal(got, []string{"blobs/" + seal.ID("x")}) {
		t.Errorf("garbage of work that goes on: %q", got)
	}
	// When the last one is old, the run was given up.
	aged.age[units+"/third.json"] = 30 * 24 * time.Hour
	p, err = Find(ctx, aged, Options{})
	must(t, err)
	if got := garbageKeys(p); len(got) != 7 {
		t.Errorf("garbage of work that was given up: %q", got)
	}
}

func garbageKeys(p *Plan) []string {
	found := map[string]bool{}
	for _, g := range p.Garbage {
		found[g.Key] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// agedStore says that objects are older than they are.
type agedStore struct {
	objstore.Store
	age map[string]time.Duration
}

func (a *agedStore) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range a.Store.List(ctx, prefix) {
			info.Modified = info.Modified.Add(-a.age[info.Key])
			if !yield(info, err) {
				return
			}
		}
	}
}

func (a *agedStore) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := a.Store.Stat(ctx, key)
	info.Modified = info.Modified.Add(-a.age[key])
	return info, err
}

// TestWriterMeanwhile commits a version between the search and the deletion that takes up
// objects which were garbage: they stay.
func TestWriterMeanwhile(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	commit(t, s, "tasks", 1, []string{"a"})
	blob, err := datasets.PutBlob(ctx, s, []byte("a text that is a blob"))
	must(t, err)
	other, err := datasets.PutBlob(ctx, s, []byte("a text that nobody names"))
	must(t, err)
	p, err := Find(ctx, s, Options{Now: later})
	must(t, err)
	if len(p.Garbage) != 2 {
		t.Fatalf("garbage: %q", garbageKeys(p))
	}
	commit(t, s, "tasks", 2, []string{"a text that is a blob"})
	n, err := p.Delete(ctx)
	must(t, err)
	if _, err := s.Stat(ctx, "blobs/"+blob); err != nil || n != 1 {
		t.Errorf("%d deleted; the blob of the new version: %v", n, err)
	}
	if _, err := s.Stat(ctx, "blobs/"+other); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("the other one: %v", err)
	}
	wholeAll(t, s)

	// What was written anew between search and deletion is not what was found.
	put(t, s, "blobs/"+seal.ID("again"), "old")
	p, err = Find(ctx, s, Options{Now: later})
	must(t, err)
	must(t, s.Delete(ctx, "blobs/"+seal.ID("again")))
	put(t, s, "blobs/"+seal.ID("again"), "new")
	if n, err := p.Delete(ctx); err != nil || n != 0 {
		t.Errorf("%d deleted of what was written anew, %v", n, err)
	}
}

// TestLateWriterIsTold: a version that is committed while the deletion runs, and needs
// what was just deleted, is named.
func TestLateWriterIsTold(t *testing.T) {
	t.Parallel()
	for texts, want := range map[string]string{"a": "objects that were just deleted", "a text that is a blob": "something cannot be read"} {
		late(t, texts, want)
	}
}

func late(t *testing.T, text, want string) {
	s := &mem.Store{}
	v := commit(t, s, "tasks", 1, []string{text})
	manifest := "tasks/versions/" + v.Digest() + "/manifest.json"
	raw := v.RawManifest()
	must(t, s.Delete(ctx, manifest))
	commit(t, s, "rollouts", 1, []string{"a"})
	p, err := Find(ctx, s, Options{Now: later})
	must(t, err)
	p.store = &lateStore{Store: s, commit: func() { put(t, s, manifest, string(raw)) }}
	_, err = p.Delete(ctx)
	if exit.Code(err) != exit.Input || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v", err)
	}
}

// lateStore commits after the first deletion.
type lateStore struct {
	objstore.Store
	commit func()
}

func (l *lateStore) Delete(ctx context.Context, key string) error {
	err := l.Store.Delete(ctx, key)
	if l.commit != nil && strings.Contains(key, "/data/") && strings.HasSuffix(key, ".arrow") {
		l.commit()
		l.commit = nil
	}
	return err
}

// TestUnreadableStopsIt: with a manifest or a list that cannot be read nothing is known
// of the rest.
func TestUnreadableStopsIt(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"/manifest.json", ".blobs", "newer"} {
		s := &mem.Store{}
		v := commit(t, s, "tasks", 1, []string{"a text that is a blob"})
		put(t, s, "blobs/"+seal.ID("x"), "x")
		for _, key := range keys(t, s) {
			switch {
			case what == ".blobs" && strings.HasSuffix(key, what):
				must(t, s.Delete(ctx, key))
			case what != ".blobs" && strings.HasSuffix(key, "/manifest.json"):
				must(t, s.Delete(ctx, key))
				text := strings.Replace(string(v.RawManifest()), `"rows":1`, `"rows":2`, 1)
				if what == "newer" {
					text = strings.Replace(string(v.RawManifest()), `"format":1`, `"format":2`, 1)
				}
				put(t, s, key, text)
			}
		}
		if _, err := Find(ctx, s, Options{Now: later}); exit.Code(err) != exit.Input || !strings.Contains(fmt.Sprint(err), "nothing is deleted") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
