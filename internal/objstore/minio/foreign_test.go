package minio

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// A web server, a console or a login page in place of the service is a wrong address. To
// take its answer for an empty listing would say that nothing is there.
func TestForeignServers(t *testing.T) {
	t.Parallel()
	page := "<html>\n<body>" + strings.Repeat("welcome ", 500) + "</body>\n</html>"
	for status, want := range map[int]int{200: exit.Config, 302: exit.Config, 400: exit.Config, 403: exit.Config, 404: exit.Config, 405: exit.Config, 429: exit.Retry, 502: exit.Retry} {
		for _, kind := range []string{"text/html; charset=utf-8", "text/plain", ""} {
			if kind != "text/html; charset=utf-8" && (status == 403 || status == 404) {
				continue // bare answers, which S3 services give to HEAD as well
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{kind}
				w.WriteHeader(status)
				fmt.Fprint(w, page)
			}))
			s := service{cfg: config(server.URL), bucket: "bucket"}.open(t)
			var listed error
			for _, err := range s.List(t.Context(), "d/versions/") {
				listed = err
			}
			_, stat := s.Stat(t.Context(), "k")
			_, put := s.Create(t.Context(), "k", objstore.Bytes("x"))
			for call, err := range map[string]error{"list": listed, "stat": stat, "put": put} {
				if call == "put" && status == 200 { // it says that conditions are not kept
					continue
				}
				if exit.Code(err) != want || want == exit.Config && !strings.Contains(err.Error(), "S3 service") || len(fmt.Sprint(err)) > 600 || strings.Contains(fmt.Sprint(err), "\n") {
					t.Errorf("%d %q: %s: error %v (exit %d), want exit %d", status, kind, call, err, exit.Code(err), want)
				}
			}
			server.Close()
		}
	}
}

// Whoever answers 404 to a write without saying more has no place for it.
func TestWriteAnswered404(t *testing.T) {
	t.Parallel()
	_, err := answering(t, 404, "", "", nil).Create(t.Context(), "k", objstore.Bytes("x"))
	if exit.Code(err) != exit.Config || !strings.Contains(fmt.Sprint(err), "S3 service") {
		t.Errorf("error %v (exit %d), want one about the address", err, exit.Code(err))
	}
}
