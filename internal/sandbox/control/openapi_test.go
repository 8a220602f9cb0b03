package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"

	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/sandboxtest/plain"
)

// document is the OpenAPI document as the service serves it.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	raw, err := control.OpenAPI()
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

var router = sync.OnceValues(func() (routers.Router, error) {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// Every route is in the document, and the document has no other.
func TestDocumentAndRoutesAgree(t *testing.T) {
	t.Parallel()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	set := control.Defaults()
	set.Keys = control.ParseKeys(testKey)
	s, err := control.New(plain.New(t), set)
	if err != nil {
		t.Fatal(err)
	}
	served, written := map[string][]string{}, map[string][]string{}
	for pattern, methods := range s.Table() {
		if len(methods) > 0 {
			served[strings.TrimSuffix(pattern, "{$}")] = methods
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			written[path] = append(written[path], method)
		}
		slices.Sort(written[path])
	}
	if diff := cmp.Diff(served, written); diff != "" {
		t.Errorf("routes and openapi.yaml differ (-served +written):\n%s", diff)
	}
}

// The documents that FastAPI would serve need no key, and refer to nothing elsewhere.
func TestDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.do("GET", "/openapi.json", nil, "X-API-Key", "")
	if a.status != 200 || a.str("openapi") != "3.0.3" {
		t.Errorf("openapi.json: %d %.100s", a.status, a.raw)
	}
	for _, path := range []string{"/docs", "/redoc"} {
		page := r.do("GET", path, nil, "X-API-Key", "")
		if page.status != 200 || !strings.Contains(string(page.raw), "/sandboxes/{id}/exec") {
			t.Errorf("%s: %d %.200s", path, page.status, page.raw)
		}
		for _, never := range []string{"http://", "https://", "<script"} {
			if strings.Contains(string(page.raw), never) {
				t.Errorf("%s has %s", path, never)
			}
		}
	}
}

// documented holds an exchange against the document. What was refused as wrong need not
// have been right.
func documented(t testing.TB, prefix string, req *http.Request, sent []byte, a answer) {
	t.Helper()
	path := strings.TrimPrefix(req.URL.Path, prefix)
	find, err := router()
	if err != nil {
		t.Fatal(err)
	}
	to := req.Clone(context.Background())
	to.URL = &url.URL{Path: path, RawQuery: req.URL.RawQuery}
	to.Body = io.NopCloser(bytes.NewReader(sent))
	to.Header.Set("Content-Type", "application/octet-stream")
	if json.Valid(sent) && !strings.HasSuffix(req.URL.Path, "/raw") {
		to.Header.Set("Content-Type", "application/json")
	}
	route, params, err := find.FindRoute(to)
	if err != nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s answered %d and is not in the document: %v", req.Method, req.URL.Path, a.status, err)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: to, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if a.status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			t.Errorf("%s %s was taken, and the document has it otherwise: %v", req.Method, req.URL.Path, err)
		}
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.raw)),
	})
	if err != nil {
		t.Errorf("%s %s: the answer %d is not the document's: %v", req.Method, req.URL.Path, a.status, err)
	}
}
