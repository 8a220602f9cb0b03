package wire_test

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/agent/wire"
)

const uid = "0f6c1f1e-uid"

var start = time.UnixMilli(1_700_000_000_000)

func keys(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// arrive is a signed request as a server sees it.
func arrive(t testing.TB, method, target, body string, key ed25519.PrivateKey, uid string, at time.Time) *http.Request {
	t.Helper()
	out, err := http.NewRequest(method, "http://agent"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Sign(out, key, uid, at); err != nil {
		t.Fatal(err)
	}
	in := httptest.NewRequest(method, target, strings.NewReader(body))
	in.Header.Set("Authorization", out.Header.Get("Authorization"))
	return in
}

func TestVerify(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	other, stranger := keys(t)
	const body = `{"id":"a","argv":["true"]}`
	post := func() *http.Request {
		return arrive(t, "POST", "/v1/jobs?wait=1", body, private, uid, start)
	}
	for _, c := range []struct {
		name string
		req  func() *http.Request
		says string // "" is accepted
	}{
		{"good", post, ""},
		{"a second key", func() *http.Request { return arrive(t, "GET", "/v1/jobs", "", stranger, uid, start) }, ""},
		{"streamed", func() *http.Request { return arrive(t, "PUT", "/v1/files?path=a", body, private, uid, start) }, ""},
		{"a little early", func() *http.Request {
			return arrive(t, "GET", "/v1/jobs", "", private, uid, start.Add(-wire.ClockSkew))
		}, ""},
		{"unsigned", func() *http.Request { return httptest.NewRequest("GET", "/v1/jobs", nil) }, "not signed"},
		{"another scheme", func() *http.Request {
			r := post()
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "Orchard1", "Orchard2", 1))
			return r
		}, "not signed"},
		{"another sandbox", func() *http.Request { return arrive(t, "GET", "/v1/jobs", "", private, uid+"2", start) }, "uid"},
		{"an unknown key", func() *http.Request {
			_, unknown := keys(t)
			return arrive(t, "GET", "/v1/jobs", "", unknown, uid, start)
		}, "keys"},
		{"another method", func() *http.Request { r := post(); r.Method = "DELETE"; return r }, "fits neither"},
		{"another query", func() *http.Request { r := post(); r.RequestURI = "/v1/jobs?wait=2"; return r }, "fits neither"},
		{"another body", func() *http.Request {
			r := post()
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(body, "true", "evil", 1)))
			return r
		}, "not the signed one"},
		{"a longer body", func() *http.Request {
			r := post()
			r.Body = io.NopCloser(strings.NewReader(body + " "))
			return r
		}, "not the signed one"},
		{"another length of a stream", func() *http.Request {
			r := arrive(t, "PUT", "/v1/files?path=a", body, private, uid, start)
			r.ContentLength++
			return r
		}, "length"},
		{"stale", func() *http.Request {
			return arrive(t, "GET", "/v1/jobs", "", private, uid, start.Add(-wire.ClockSkew-time.Millisecond))
		}, "clock"},
		{"from the future", func() *http.Request {
			return arrive(t, "GET", "/v1/jobs", "", private, uid, start.Add(wire.ClockSkew+time.Millisecond))
		}, "clock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := wire.NewVerifier(uid, []ed25519.PublicKey{public, other}, func() time.Time { return start })
			r := c.req()
			err := v.Verify(r)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, want an error with %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Body = io.NopCloser(strings.NewReader(body)) // as an attacker would send it again
			if err := v.Verify(r); err == nil || !strings.Contains(err.Error(), "used before") {
				t.Errorf("a replay: got %v", err)
			}
		})
	}
}

// Any one changed byte of anything that is signed makes a request invalid.
func TestFlippedByteIsRefused(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	rapid.Check(t, func(r *rapid.T) {
		body := rapid.StringN(0, 200, -1).Draw(r, "body")
		target := "/v1/jobs?" + rapid.StringMatching(`[a-z0-9=&]{0,20}`).Draw(r, "query")
		req := arrive(t, "POST", target, body, private, uid, start)
		parts := map[string]*[]byte{}
		for name, text := range map[string]string{"authorization": req.Header.Get("Authorization"), "uri": req.RequestURI, "body": body, "method": "POST"} {
			bytes := []byte(text)
			parts[name] = &bytes
		}
		bits := byte(rapid.IntRange(1, 255).Draw(r, "bits"))
		part := *parts[rapid.SampledFrom([]string{"authorization", "uri", "body", "method"}).Draw(r, "part")]
		if len(part) == 0 {
			r.Skip("an empty body has no byte to flip")
		}
		part[rapid.IntRange(0, len(part)-1).Draw(r, "at")] ^= bits
		req.Header.Set("Authorization", string(*parts["authorization"]))
		req.RequestURI, req.Method = string(*parts["uri"]), string(*parts["method"])
		req.Body = io.NopCloser(bytes.NewReader(*parts["body"]))
		v := wire.NewVerifier(uid, []ed25519.PublicKey{public}, func() time.Time { return start })
		if v.Verify(req) == nil {
			r.Fatalf("accepted with a changed byte: %q %q", req.Header, req.RequestURI)
		}
	})
}

func TestTransport(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	v := wire.NewVerifier(uid, []ed25519.PublicKey{public}, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := v.Verify(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	client := &http.Client{Transport: &wire.Transport{Key: private, UID: uid}}
	for _, c := range []struct {
		name, method, path, want string
		body                     io.Reader
	}{
		{"no body", "GET", "/a?b=%2F&c=%20+", "", nil},
		{"body", "POST", "/v1/jobs", "hello", strings.NewReader("hello")},
		{"empty body", "POST", "/v1/jobs", "", strings.NewReader("")},
		{"put", "PUT", "/v1/files?path=%E6%8A%A5", "hello", strings.NewReader("hello")},
		{"put of unknown length", "PUT", "/v1/files", "hello", io.MultiReader(strings.NewReader("hello"))},
		{"put of nothing, unknown", "PUT", "/v1/files", "", io.MultiReader()},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest(c.method, server.URL+c.path, c.body)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // each sending has its own signature
				if req.GetBody != nil {
					req.Body, _ = req.GetBody()
				} else if c.body != nil {
					req.Body = io.NopCloser(io.MultiReader(strings.NewReader(c.want)))
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || string(text) != c.want {
					t.Errorf("got %d %q", resp.StatusCode, text)
				}
			}
			if req.Header.Get("Authorization") != "" {
				t.Error("the caller's request was changed")
			}
		})
	}
	req, _ := http.NewRequest("POST", server.URL, io.MultiReader(strings.NewReader("x")))
	if _, err := client.Do(req); err == nil || !strings.Contains(err.Error(), "only a PUT may stream") {
		t.Errorf("a POST that streams: got %v", err)
	}
	if err := wire.Sign(req, nil, uid, start); err == nil {
		t.Error("signed without a key")
	}
}

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	again, err := wire.ParsePrivateKey(" " + wire.FormatPrivateKey(private) + "\n")
	if err != nil || !again.Equal(private) {
		t.Errorf("private key: %v", err)
	}
	other, _ := keys(t)
	got, err := wire.ParsePublicKeys(wire.FormatPublicKey(public) + ",\n" + wire.FormatPublicKey(other))
	if err != nil || len(got) != 2 || !got[0].Equal(public) || !got[1].Equal(other) {
		t.Errorf("public keys: %v %v", got, err)
	}
	for _, bad := range []string{"", "x", wire.FormatPublicKey(public)[1:], wire.FormatPrivateKey(private) + " " + wire.FormatPrivateKey(private)} {
		if _, err := wire.ParsePrivateKey(bad); err == nil || len(bad) > 4 && strings.Contains(err.Error(), bad[:4]) {
			t.Errorf("private %q: got %v", bad, err)
		}
	}
	for _, bad := range []string{"", "x", wire.FormatPublicKey(public)[1:]} {
		if _, err := wire.ParsePublicKeys(bad); err == nil {
			t.Errorf("public %q: accepted", bad)
		}
	}
}

func FuzzVerify(f *testing.F) {
	public, private := keys(f)
	good := arrive(f, "GET", "/v1/jobs", "", private, uid, start).Header.Get("Authorization")
	f.Add(good)
	f.Add("Orchard1 1 2 sha256: ")
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/v1/files", nil)
		r.Header.Set("Authorization", header)
		v := wire.NewVerifier(uid, []ed25519.PublicKey{public}, func() time.Time { return start })
		if v.Verify(r) == nil {
			t.Errorf("accepted %q", header)
		}
	})
}
