package control

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed openapi.yaml
var openapiYAML []byte

// openapiJSON is the document that clients generate code from.
var openapiJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(openapiYAML) })

func (s *Service) openapi(w http.ResponseWriter, _ *http.Request) error {
	raw, err := openapiJSON()
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	head(w, http.StatusOK, len(raw))
	w.Write(raw)
	return nil
}

// docsPage needs nothing from anywhere else, and no script.
var docsPage = template.Must(template.New("docs").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td{padding:.2em 1em .2em 0;vertical-align:top}code{white-space:nowrap}</style>
</head><body><h1>{{.Title}}</h1><p>{{.Description}}</p><p>The whole of it, for programs: <a href="openapi.json">openapi.json</a></p>
<table>{{range .Routes}}<tr><td><code>{{.Method}}</code></td><td><code>{{.Path}}</code></td><td>{{.Summary}}</td></tr>
{{end}}</table></body></html>
`))

type docsRoute struct{ Method, Path, Summary string }

// docs lists the routes for people.
func (s *Service) docs(w http.ResponseWriter, _ *http.Request) error {
	var doc struct {
		Info  struct{ Title, Description string }
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(openapiYAML, &doc); err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	var routes []docsRoute
	for path, methods := range doc.Paths {
		for method, m := range methods {
			if op, ok := m.(map[string]any); ok { // else it is what the methods share
				summary, _ := op["summary"].(string)
				routes = append(routes, docsRoute{strings.ToUpper(method), path, summary})
			}
		}
	}
	slices.SortFunc(routes, func(a, b docsRoute) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return docsPage.Execute(w, struct {
		Title, Description string
		Routes             []docsRoute
	}{doc.Info.Title, doc.Info.Description, routes})
}
