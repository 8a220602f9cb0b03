package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/agent/wire"
)

const said = "bash: cannot set terminal process group (123): Inappropriate ioctl for device\nbash: no job control in this shell\n"

// However a stream is cut into writes, the filter drops the two lines from its start
// and nothing else.
func TestNoiseFilter(t *testing.T) {
	t.Parallel()
	lines := []string{"", "err\n", "bash: x: command not found\n", "bash", said, said[:20], "\n\n", "\xff\x00"}
	rapid.Check(t, func(t *rapid.T) {
		rest := ""
		for range rapid.IntRange(0, 4).Draw(t, "lines") {
			rest += rapid.SampledFrom(lines[:4]).Draw(t, "line") + rapid.SampledFrom(lines[4:]).Draw(t, "later")
		}
		start := rapid.SampledFrom([]string{said, "", said[bytes.IndexByte([]byte(said), '\n')+1:]}).Draw(t, "start")
		if start == "" {
			rest = "first\n" + rest
		} else if len(start) < len(said) {
			rest = "next\n" + rest
		}
		var got bytes.Buffer
		f := &noiseFilter{into: &got}
		stream := []byte(start + rest)
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "cut")
			_, _ = f.Write(stream[:n])
			stream = stream[n:]
		}
		f.flush()
		if got.String() != rest {
			t.Fatalf("got %q, want %q", got.String(), rest)
		}
	})
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       stat
		ok         bool
	}{
		{"plain", "7 (sh) S 1 7 7 0 -1", stat{pid: 7, parent: 1, group: 7, session: 7}, true},
		{"zombie", "7 (sh) Z 1 6 5 0 -1", stat{pid: 7, parent: 1, group: 6, session: 5, dead: true}, true},
		{"name of a liar", "7 (a) S 9 9 9 (b)) R 1 2 3 0", stat{pid: 7, parent: 1, group: 2, session: 3}, true},
		{"cut off", "7 (sh) S 1", stat{}, false},
		{"empty", "", stat{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseStat(7, []byte(c.text))
			if got != c.want || ok != c.ok {
				t.Errorf("got %+v %v, want %+v %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestParseMark(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"Limit  Soft  Hard  Units\nMax realtime priority 0 0\nMax realtime timeout      4611686018427387905  unlimited  us\n": 1<<62 + 1,
		"Max realtime timeout      unlimited            unlimited            us\n":                                            0,
		"": 0,
	} {
		if got := parseMark([]byte(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) S 9 9 9 (b)) R 1 2 3 0"))
	f.Fuzz(func(t *testing.T, text []byte) { parseStat(7, text); parseMark(text) })
}

// A body is either refused with a reason or is a command that the kernel can be given.
func FuzzExecRequest(f *testing.F) {
	f.Add([]byte(`{"id":"a","shell":"true","timeout_ms":1,"env":{"A":"b"}}`))
	f.Add([]byte(`{"id":"a","argv":["a","b"],"timeout_ms":1e3,"stdin":"AA=="}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r wire.ExecRequest
		if json.Unmarshal(body, &r) != nil || check(&r) != nil {
			return
		}
		if r.TimeoutMS < 1 || time.Duration(r.TimeoutMS)*time.Millisecond > maxTimeout || r.ID == "" {
			t.Errorf("accepted %+v", r)
		}
		if bytes.ContainsRune([]byte(shown(&r)), 0) {
			t.Errorf("accepted a NUL byte: %q", shown(&r))
		}
		if _, err := fingerprint(&r); err != nil {
			t.Error(err)
		}
	})
}

// Whatever the query, the answer is a file, a list or an error with a code; it never hangs.
func FuzzFileQuery(f *testing.F) {
	f.Add("path=/etc/passwd")
	f.Add("path=%ff%00")
	f.Add("path=../../dev/zero&mode=0644")
	s, err := newServer(f.Context(), Config{Cwd: f.TempDir(), Spool: f.TempDir()}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.spool.close)
	f.Fuzz(func(t *testing.T, query string) {
		if values, err := url.ParseQuery(query); err == nil && len(values.Get("path")) > 5 && values.Get("path")[:5] == "/proc" {
			t.Skip("some files of /proc never end")
		}
		for path, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
			"/v1/files": s.getFile, "/v1/files/list": s.listFiles,
		} {
			r := httptest.NewRequest("GET", path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			s.answer(handle).ServeHTTP(w, r)
			if w.Code >= 500 || w.Code == 0 {
				t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
		_, _ = waitOf(url.Values{"wait": {query}})
	})
}
