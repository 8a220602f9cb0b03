// Package embedtest is a server of embeddings for tests: it answers what the test says.
package embedtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Server answers for each text what vector makes of it, which is a list of numbers or
// base64, or nil for no answer; until the test ends. Asked is the texts so far, sorted.
func Server(t testing.TB, vector func(text string) any) (url string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		data := []map[string]any{}
		for i, text := range body.Input {
			if v := vector(text); v != nil {
				data = append(data, map[string]any{"index": i, "embedding": v})
			}
		}
		mu.Lock()
		all = append(all, body.Input...)
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(all))
	}
}
