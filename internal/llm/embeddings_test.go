package llm_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/llm"
)

// embedder is a server whose n-th answer, from 0, is what the function writes.
func embedder(t *testing.T, answer func(n int64, w http.ResponseWriter, body map[string]any)) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var body map[string]any
		if err != nil || r.URL.Path != "/v1/embeddings" || json.Unmarshal(raw, &body) != nil {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		answer(calls.Add(1)-1, w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	var got map[string]any
	url, calls := embedder(t, func(n int64, w http.ResponseWriter, body map[string]any) {
		if n == 0 { // as servers do while they start
			http.Error(w, "loading", http.StatusServiceUnavailable)
			return
		}
		got = body
		fmt.Fprint(w, `{"data":[{"index":2,"embedding":[3,0]},{"index":0,"embedding":[1,-0.5]},{"index":1,"embedding":[0,0]}]}`)
	})
	v, err := client(t, url, nil).Embeddings(t.Context(), []string{"a", "", "ü"})
	if err != nil || calls.Load() != 2 {
		t.Fatalf("%v after %d calls", err, calls.Load())
	}
	if d := cmp.Diff([][]float32{{1, -0.5}, {0, 0}, {3, 0}}, v); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"model": "m", "encoding_format": "float", "input": []any{"a", "", "ü"}}, got); d != "" {
		t.Error(d)
	}
	if v, err := client(t, url, nil).Embeddings(t.Context(), nil); len(v) != 0 || err != nil || calls.Load() != 2 {
		t.Errorf("of nothing: %v, %v", v, err)
	}
}

// Some servers number nothing, and some send base64 whatever they are asked.
func TestEmbeddingsOfOtherServers(t *testing.T) {
	t.Parallel()
	b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.25))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(math.NaN())))
	url, _ := embedder(t, func(_ int64, w http.ResponseWriter, _ map[string]any) {
		fmt.Fprintf(w, `{"data":[{"embedding":%q},{"embedding":[1,2]}]}`, base64.StdEncoding.EncodeToString(b))
	})
	v, err := client(t, url, nil).Embeddings(t.Context(), []string{"a", "b"})
	if err != nil || v[0][0] != 0.25 || v[0][1] == v[0][1] || v[1][1] != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

// An answer that is not what was asked for is an error that says so, never other vectors.
func TestBadEmbeddings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, answer, want string }{
		{"fewer", `{"data":[{"index":0,"embedding":[1]}]}`, "asked for the embeddings of 2 texts, got 1"},
		{"more", `{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}`, "of 2 texts, got 3"},
		{"none", `{}`, "of 2 texts, got 0"},
		{"index out of range", `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`, "has the index 2, which is out of range or there twice"},
		{"index twice", `{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}`, "has the index 1, which is out of range or there twice"},
		{"index of some", `{"data":[{"index":0,"embedding":[1]},{"embedding":[1]}]}`, "some have none"},
		{"mixed dimensions", `{"data":[{"embedding":[1,2]},{"embedding":[1]}]}`, "embedding 0 of one answer has 2 numbers and embedding 1 has 1"},
		{"no numbers", `{"data":[{"embedding":[1]},{"embedding":[]}]}`, "embedding 1 of 2: is no list of numbers"},
		{"null", `{"data":[{"embedding":[1]},{"embedding":[null]}]}`, "embedding 1 of 2: number 0 is null"},
		{"no embedding", `{"data":[{"embedding":[1]},{}]}`, "embedding 1 of 2: is no list of numbers"},
		{"too large", `{"data":[{"embedding":[1]},{"embedding":[1e39]}]}`, "embedding 1 of 2: is no list of numbers"},
		{"NaN", `{"data":[{"embedding":[1]},{"embedding":[NaN]}]}`, "the answer is no list of embeddings"},
		{"bad base64", `{"data":[{"embedding":"abc"},{"embedding":[1]}]}`, "embedding 0 of 2: is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, calls := embedder(t, func(_ int64, w http.ResponseWriter, _ map[string]any) { fmt.Fprint(w, c.answer) })
			v, err := client(t, url, nil).Embeddings(t.Context(), []string{"a", "b"})
			if v != nil || !llm.Is(err, llm.Nonsense) || !strings.Contains(err.Error(), c.want) || calls.Load() != 1 {
				t.Errorf("%v, %v after %d calls", v, err, calls.Load())
			}
		})
	}
}

func TestEmbeddingsThatAreRefused(t *testing.T) {
	t.Parallel()
	url, calls := embedder(t, func(n int64, w http.ResponseWriter, _ map[string]any) {
		switch n {
		case 0:
			fmt.Fprint(w, `{"error":{"message":"overloaded","code":503}}`) // with status 200
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"This model's maximum context length is 512 tokens, `+key+`"}}`)
		}
	})
	_, err := client(t, url, nil).Embeddings(t.Context(), []string{"a"})
	if !llm.Is(err, llm.TooLong) || calls.Load() != 2 || strings.Contains(err.Error(), key) {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	wrong, _ := embedder(t, func(_ int64, w http.ResponseWriter, _ map[string]any) { http.NotFound(w, nil) })
	if _, err := client(t, wrong, nil).Embeddings(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "and --embedding-model: 404") {
		t.Errorf("%v", err)
	}
	down, dcalls := embedder(t, func(_ int64, w http.ResponseWriter, _ map[string]any) {
		http.Error(w, "busy", http.StatusTooManyRequests)
	})
	if _, err := client(t, down, nil).Embeddings(t.Context(), []string{"a"}); !llm.Is(err, llm.Transient) || dcalls.Load() != 4 {
		t.Errorf("%v after %d calls", err, dcalls.Load())
	}
}
