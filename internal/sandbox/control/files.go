package control

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"orchard/agent/wire"
	"orchard/internal/seal"
)

var modeRule = regexp.MustCompile(`^0?[0-7]{3}$`)

// filePath is the query's path, which must be there.
func filePath(r *http.Request) (string, error) {
	q := r.URL.Query()
	if !q.Has("path") {
		return "", invalidField("query", "path", "value_error.missing", "field required")
	}
	return checkPath("query", q.Get("path"))
}

func checkPath(where, p string) (string, error) {
	if p == "" || strings.ContainsRune(p, 0) {
		return "", invalidField(where, "path", "value_error", "path must not be empty or hold NUL")
	}
	return p, nil
}

// putFile writes a file whose content comes in base64.
func (s *Service) putFile(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	b.required("path")
	b.required("content")
	path, mode := b.text("path"), b.text("mode")
	content, err := base64.StdEncoding.DecodeString(b.text("content"))
	if err != nil {
		b.fault("content", "value_error", "not base64: "+err.Error())
	}
	if mode != "" && !modeRule.MatchString(mode) {
		b.fault("mode", "value_error", "mode must be octal, such as 0644")
	}
	if err := b.err(); err != nil {
		return err
	}
	if _, err := checkPath("body", path); err != nil {
		return err
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	f, err := a.put(r.Context(), path, mode, bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return s.agentFault(r.Context(), st, err, "File not found: "+path)
	}
	writeJSON(w, http.StatusOK, written{true, path, f.Size})
	return nil
}

type written struct {
	Success bool   `json:"success"`
	Path    string `json:"path"`
	Size    int64  `json:"size"`
}

// getFile answers with a file in base64, encoded as it is read.
func (s *Service) getFile(w http.ResponseWriter, r *http.Request) error {
	path, err := filePath(r)
	if err != nil {
		return err
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	resp, err := a.get(r.Context(), path, nil)
	if err != nil {
		return s.agentFault(r.Context(), st, err, "File not found: "+path)
	}
	defer resp.Body.Close()
	name, err := seal.JSON(path)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"path":`+string(name)+`,"content":"`)
	e := base64.NewEncoder(base64.StdEncoding, w)
	size, err := io.Copy(e, resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the status is out: only a cut says that this is not the whole
	}
	e.Close()
	io.WriteString(w, `","size":`+strconv.FormatInt(size, 10)+`}`)
	return nil
}

// entry is a file in a listing. What is neither file nor directory is a "file" to the
// original's clients, and kind says what it is.
type entry struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Size     int64   `json:"size"`
	Modified *string `json:"modified"`
	Mode     string  `json:"mode,omitempty"`
	Kind     string  `json:"kind,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func (s *Service) listFiles(w http.ResponseWriter, r *http.Request) error {
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	path := st.Spec.Workdir
	if q := r.URL.Query(); q.Has("path") {
		if path, err = checkPath("query", q.Get("path")); err != nil {
			return err
		}
	}
	l, err := a.list(r.Context(), path)
	if err != nil {
		return s.agentFault(r.Context(), st, err, "Path not found: "+path)
	}
	files := make([]entry, len(l.Files))
	for i, f := range l.Files {
		files[i] = entryOf(f)
	}
	writeJSON(w, http.StatusOK, struct {
		Path  string  `json:"path"`
		Files []entry `json:"files"`
	}{path, files})
	return nil
}

func entryOf(f wire.File) entry {
	e := entry{Name: f.Name, Type: "file", Size: f.Size, Error: f.Error}
	switch f.Type {
	case "file", "directory":
		e.Type = f.Type
	default:
		e.Kind = f.Type
	}
	if f.ModifiedUS != 0 {
		e.Modified = ptr(time.UnixMicro(f.ModifiedUS).UTC().Format("2006-01-02T15:04:05"))
		e.Mode = "0" + strconv.FormatUint(uint64(f.Mode&0o777), 8)
	}
	return e
}

// largestRefused is how much of a body that is of no use any more is still taken.
const largestRefused = 1 << 30

// putRaw streams the request's body into a file.
func (s *Service) putRaw(w http.ResponseWriter, r *http.Request) error {
	path, err := filePath(r)
	if err != nil {
		return err
	}
	mode := r.URL.Query().Get("mode")
	if mode != "" && !modeRule.MatchString(mode) {
		return invalidField("query", "mode", "value_error", "mode must be octal, such as 0644")
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	// The body stays open when the agent has answered, for what of it is still to be read.
	f, err := a.put(r.Context(), path, mode, io.NopCloser(r.Body), r.ContentLength)
	if err != nil {
		// Many clients read only when they have sent everything: cut off before, they would
		// see a broken connection, not the reason. What it is, it is no error any more.
		_, _ = io.CopyN(io.Discard, r.Body, largestRefused)
		return s.agentFault(r.Context(), st, err, "File not found: "+path)
	}
	writeJSON(w, http.StatusOK, written{true, path, f.Size})
	return nil
}

// getRaw streams a file, or the part of it that a Range header names.
func (s *Service) getRaw(w http.ResponseWriter, r *http.Request) error {
	path, err := filePath(r)
	if err != nil {
		return err
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	resp, err := a.get(r.Context(), path, r.Header)
	if err != nil {
		return s.agentFault(r.Context(), st, err, "File not found: "+path)
	}
	defer resp.Body.Close()
	return relay(w, resp)
}
