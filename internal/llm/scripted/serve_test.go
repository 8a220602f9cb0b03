package scripted

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orchard/datasets/record"
)

// askOver sends one request about statement and returns the status and body.
func askOver(t *testing.T, url, statement string) (int, string) {
	t.Helper()
	body := `{"model":"scripted","seed":1,"messages":[{"role":"user","content":"` + statement + `"}]}`
	r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestFollowTakesNewTasks(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var trouble error
	sets := map[string][]record.Task{"": nil}
	name, loads := "", 0
	f := &Follow{
		Options: Defaults(), Every: time.Second, Now: func() time.Time { return now },
		Load: func(context.Context, string) (string, []record.Task, error) {
			loads++
			return name, sets[name], trouble
		},
	}
	s := httptest.NewServer(f)
	defer s.Close()
	const statement = "The cache forgets entries too late."
	if status, _ := askOver(t, s.URL, statement); status == http.StatusOK {
		t.Fatal("a policy without tasks plays one")
	}
	name = "v1"
	sets["v1"] = []record.Task{{TaskID: "t", Statement: statement, GoldPatch: record.Text{Value: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}}}
	if status, _ := askOver(t, s.URL, statement); status == http.StatusOK || loads != 1 {
		t.Fatalf("asked again within a second: %d loads", loads)
	}
	now = now.Add(time.Second)
	if status, body := askOver(t, s.URL, statement); status != http.StatusOK {
		t.Fatalf("new tasks: %d %s", status, body)
	}
	now, trouble = now.Add(time.Second), errors.New("store is away")
	if status, body := askOver(t, s.URL, statement); status != http.StatusServiceUnavailable || !strings.Contains(body, "store is away") {
		t.Errorf("trouble: %d %s", status, body)
	}
}

func TestGoldComesFromItsBlob(t *testing.T) {
	t.Parallel()
	task := record.Task{TaskID: "t", GoldPatch: record.Text{Value: "short", Blob: "abc"}}
	err := Gold(t.Context(), &task, func(_ context.Context, sha string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("whole " + sha)), nil
	})
	if err != nil || task.GoldPatch.Value != "whole abc" || task.GoldPatch.Blob != "" {
		t.Errorf("%+v, %v", task.GoldPatch, err)
	}
	task.GoldPatch.Blob = "abc"
	err = Gold(t.Context(), &task, func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("gone") })
	if err == nil || !strings.Contains(err.Error(), "task t") {
		t.Errorf("%v", err)
	}
}
