package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orchard/internal/sandbox"
)

// memory is a Runtime of states that a test wrote down, which counts how it is asked.
type memory struct {
	states []State
	events []Event
	asked  atomic.Int64 // for single sandboxes
}

var (
	_ Runtime = (*memory)(nil)
	_ Eventer = (*memory)(nil)
)

func (m *memory) Start(_ context.Context, spec sandbox.Spec) (State, error) {
	return State{Spec: spec, UID: "uid-" + spec.ID, Phase: Pending}, nil
}
func (m *memory) Get(_ context.Context, id string) (State, error) {
	m.asked.Add(1)
	for _, st := range m.states {
		if st.Spec.ID == id {
			return st, nil
		}
	}
	return State{}, ErrNotFound
}
func (m *memory) Wait(ctx context.Context, id string) (State, error) { return m.Get(ctx, id) }
func (m *memory) List(context.Context) ([]State, error)              { return m.states, nil }
func (m *memory) Stop(ctx context.Context, id, _ string) error       { _, err := m.Get(ctx, id); return err }
func (m *memory) Agent(context.Context, string) (http.RoundTripper, string, error) {
	m.asked.Add(1)
	return nil, "", ErrNotReady
}
func (m *memory) Events(context.Context, string) ([]Event, error) { return m.events, nil }

// ask is one request of a service over m, by the flat key "k".
func (m *memory) ask(t testing.TB, s *Service, method, path string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("X-API-Key", "k")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	return w.Code, body
}

func newMemory(t testing.TB, states ...State) (*memory, *Service) {
	t.Helper()
	m, set := &memory{states: states}, Defaults()
	set.Keys = ParseKeys("k")
	s, err := New(m, set)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// A route that forgot to ask for a key finds nothing.
func TestNobodySeesNothing(t *testing.T) {
	t.Parallel()
	st := State{Spec: sandbox.Spec{ID: "a"}, UID: "u", Phase: Ready}
	_, s := newMemory(t, st)
	ctx := context.Background()
	if _, err := s.runtime.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.runtime.Wait(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Wait: %v", err)
	}
	if err := s.runtime.Stop(ctx, "a", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("Stop: %v", err)
	}
	if _, _, err := s.runtime.Agent(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Agent: %v", err)
	}
	if all, err := s.runtime.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("List: %v, %v", all, err)
	}
	if _, err := s.runtime.Start(ctx, st.Spec); !errors.Is(err, errNobody) {
		t.Errorf("Start: %v", err)
	}
	if _, err := s.runtime.Events(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Events: %v", err)
	}
}

// Ten thousand sandboxes are listed a page at a time, in order, none twice, with no
// question about a single one.
func TestListPages(t *testing.T) {
	t.Parallel()
	var states []State
	for i := range 10_000 {
		states = append(states, State{Spec: sandbox.Spec{ID: fmt.Sprintf("s%05d", i), Image: "i", Labels: map[string]string{"n": fmt.Sprint(i % 3)}}, UID: fmt.Sprint(i), Phase: Ready})
	}
	m, s := newMemory(t, states...)
	for query, want := range map[string]int{"": 10_000, "limit=3000": 10_000, "limit=999&labels=n%3D1": 3333, "limit=10&prefix=s0001": 10} {
		got, last, next := 0, "", ""
		for pages := 0; ; pages++ {
			status, body := m.ask(t, s, "GET", "/sandboxes?"+query+"&continue="+next)
			if status != 200 || pages > 20 {
				t.Fatalf("%s: page %d answered %d %v", query, pages, status, body["detail"])
			}
			for _, b := range body["sandboxes"].([]any) {
				id := b.(map[string]any)["sandbox_id"].(string)
				if id <= last {
					t.Fatalf("%s: %s after %s", query, id, last)
				}
				last = id
				got++
			}
			if next, _ = body["continue"].(string); next == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%s: %d sandboxes, want %d", query, got, want)
		}
	}
	if n := m.asked.Load(); n != 0 {
		t.Errorf("%d questions about single sandboxes", n)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	box := func(id, image string, phase Phase, labels ...string) State {
		st := State{Spec: sandbox.Spec{ID: id, Image: image, Labels: map[string]string{}}, UID: id, Phase: phase, Reason: ReasonEvicted}
		for i := 0; i < len(labels); i += 2 {
			st.Spec.Labels[labels[i]] = labels[i+1]
		}
		return st
	}
	gone := box("z-deleted", "i", Ended)
	gone.Reason = ReasonDeleted
	m, s := newMemory(t, box("a1", "i", Ready, "team", "x", "run", "1"), box("a2", "j", Pending, "team", "y"), box("b1", "i", Ended), gone)
	for query, want := range map[string]string{
		"": "a1 a2 b1", "status=ready": "a1", "status=pending": "a2", "status=failed": "b1", "image=i": "a1 b1", "prefix=a": "a1 a2",
		"labels=team=x": "a1", "labels=team%3D%3Dx": "a1", "labels=team!=x": "a2 b1", "labels=team": "a1 a2", "labels=!team": "b1",
		"labels=team=x,run=1": "a1", "labels=team=x,%20run=2": "", "labels=team,run!=1": "a2", "owner=default": "a1 a2 b1", "owner=other": "",
		"limit=2&image=i": "a1 b1",
	} {
		status, body := m.ask(t, s, "GET", "/sandboxes?"+query)
		var ids []string
		boxes, _ := body["sandboxes"].([]any)
		for _, b := range boxes {
			ids = append(ids, b.(map[string]any)["sandbox_id"].(string))
		}
		if got := strings.Join(ids, " "); status != 200 || got != want {
			t.Errorf("?%s: %d %q, want %q", query, status, got, want)
		}
		if query == "limit=2&image=i" && body["continue"] != nil {
			t.Error("a full last page says that there is more")
		}
	}
	for _, bad := range []string{"status=dead", "limit=0", "limit=x", "limit=10001", "continue=x", "continue=YQ", "labels=a%20b=c", "labels==c", "labels=a=b%2Fc", "labels=a!b"} {
		if status, body := m.ask(t, s, "GET", "/sandboxes?"+bad); status != 422 {
			t.Errorf("?%s: %d %v", bad, status, body)
		}
	}
}

// Steps and what the runtime tells come in one order, and no step twice.
func TestEventsMerge(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	m, s := newMemory(t, State{Spec: sandbox.Spec{ID: "a"}, UID: "u", Phase: Ended, Reason: ReasonOOMKilled, Message: "over 1Gi",
		Created: at(0), Scheduled: at(2), Ready: at(5), Ended: at(9)})
	m.events = []Event{{at(1), "unschedulable", "no room", 3}, {at(2), "scheduled", "on n1", 1}, {at(3), "pulling", "image i", 0}}
	_, body := m.ask(t, s, "GET", "/sandboxes/a/events")
	var got []string
	for _, e := range body["events"].([]any) {
		v := e.(map[string]any)
		got = append(got, fmt.Sprint(v["at"], " ", v["type"], " ", v["message"], " ", v["count"]))
	}
	want := "1000 created the sandbox was accepted 1; 1001 unschedulable no room 3; 1002 scheduled on n1 1; 1003 pulling image i 1; " +
		"1005 ready commands run 1; 1009 OOMKilled OOMKilled: over 1Gi 1"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("events\n got %s\nwant %s", text, want)
	}
}
