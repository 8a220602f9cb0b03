package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"orchard/agent/wire"
)

// putTar unpacks the request's body beneath a folder.
func (s *Service) putTar(w http.ResponseWriter, r *http.Request) error {
	path, err := filePath(r)
	if err != nil {
		return err
	}
	q := url.Values{"path": {path}}
	if links := r.URL.Query().Get("links"); links != "" {
		if links != "any" {
			return invalidField("query", "links", "value_error", "links must be any, or absent")
		}
		q.Set("links", links)
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	// Its length is kept from the agent, so that an upload which breaks off still ends
	// there as a request, and the agent can say what it has written.
	body := &upload{from: r.Body}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(r.Context(), func() { time.AfterFunc(answerTime, cancel) })()
	resp, err := a.do(ctx, http.MethodPut, "/v1/tar", q, body, func(out *http.Request) { out.ContentLength = -1 })
	if err != nil {
		err = s.agentFault(ctx, st, err, "Path not found: "+path)
		var f *failure
		if body.err != nil && errors.As(err, &f) {
			return body.broke(w, f.status, f.detail)
		}
		return err
	}
	defer resp.Body.Close()
	var report wire.TarReport
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil {
		return fmt.Errorf("read agent's answer to a tar for %s: %w", path, err)
	}
	if body.err != nil {
		return body.broke(w, http.StatusBadRequest, report.String())
	}
	writeJSON(w, http.StatusOK, report)
	return nil
}

// upload is a client's body. One that breaks off ends for who reads it, who then finds
// that it is not whole; err says it for sure.
type upload struct {
	from io.Reader
	err  error
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.from.Read(b)
	if err != nil && err != io.EOF {
		u.err, err = err, io.EOF
	}
	return n, err
}

// broke answers a client that may have ended only its own half of the connection.
func (u *upload) broke(w http.ResponseWriter, status int, detail string) error {
	writeFailure(w, w.Header().Get("X-Request-ID"), fail(status, "the upload broke off (%v): %s", u.err, detail))
	return nil
}

// getTar packs a folder or file. How many entries could not be packed comes in a trailer.
func (s *Service) getTar(w http.ResponseWriter, r *http.Request) error {
	path, err := filePath(r)
	if err != nil {
		return err
	}
	q := url.Values{"path": {path}}
	if zip := r.URL.Query().Get("gzip"); zip != "" {
		on, ok := bools[zip]
		if !ok {
			return invalidField("query", "gzip", "type_error.bool", "value could not be parsed to a boolean")
		}
		if on {
			q.Set("gzip", "1")
		}
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	resp, err := a.do(r.Context(), http.MethodGet, "/v1/tar", q, nil, nil)
	if err != nil {
		return s.agentFault(r.Context(), st, err, "Path not found: "+path)
	}
	defer resp.Body.Close()
	kind := "application/x-tar"
	if q.Has("gzip") {
		kind = "application/gzip"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Trailer", wire.TrailerEntries+", "+wire.TrailerSkipped)
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // the status is out: only a cut says that this is not the whole
	}
	for _, name := range []string{wire.TrailerEntries, wire.TrailerSkipped} {
		w.Header().Set(name, resp.Trailer.Get(name))
	}
	return nil
}
