package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/serve"
)

// serveReport answers requests for one report's files until ctx is over.
func serveReport(ctx context.Context, stderr io.Writer, open datasets.Opener, uri, listen string) error {
	store, prefix, err := files(ctx, open, uri)
	if err != nil {
		return err
	}
	if _, err := store.Stat(ctx, prefix+"report.html"); err != nil {
		return fmt.Errorf("page of report %s: %w", uri, err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return exit.Configf("--listen: %w", err)
	}
	fmt.Fprintf(stderr, "report on http://%s/ (Ctrl-C ends it)\n", l.Addr())
	return serve.Until(ctx, l, &http.Server{Handler: handler(store, prefix)}, time.Second)
}

// types is what a report's files are, whatever this machine thinks of their names.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".md":   "text/plain; charset=utf-8",
	".json": "application/json",
}

// handler serves the files below prefix, and nothing else of the store.
func handler(store objstore.Store, prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "a report is only read", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "report.html"
		}
		kind, ok := types[path.Ext(name)]
		if !ok || strings.Contains(name, "/") || objstore.CheckKey(prefix+name) != nil {
			http.NotFound(w, r)
			return
		}
		body, info, err := store.Open(r.Context(), prefix+name, 0, -1)
		if errors.Is(err, objstore.ErrNotFound) {
			http.NotFound(w, r)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer body.Close()
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.FormatInt(info.Size, 10))
		h.Set("Cache-Control", "no-cache") // the next report may be served on this port
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, body) // the browser may go away
		}
	})
}
