package client

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"
)

// TarReport is what an archive became.
type TarReport struct {
	Path        string `json:"path"`
	Files       int64  `json:"files"`
	Directories int64  `json:"directories"`
	Links       int64  `json:"links"`
	Bytes       int64  `json:"bytes"` // of files
}

// Upload unpacks a tar, gzipped or not, beneath a folder, made when absent. Links that
// lead out of the folder are refused unless anyLinks. It is not sent again when a connection
// breaks: then the error says so, and part of it may be there.
func (s *Sandbox) Upload(ctx context.Context, path string, r io.Reader, anyLinks bool) (report TarReport, err error) {
	q := url.Values{"path": {path}}
	if anyLinks {
		q.Set("links", "any")
	}
	if err := s.client.rest.Stream(ctx, s.path("/tar"), q, r, &report); err != nil {
		return report, s.fileError("unpack into", path, err)
	}
	return report, nil
}

// Download is a folder's content, or a file, as tar; the caller closes it. Entries that
// could not be packed are told in the archive: see SkippedEntry. One that breaks off is an
// error of Read, never a short archive.
func (s *Sandbox) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := s.client.rest.Get(ctx, s.path("/tar"), url.Values{"path": {path}}, nil)
	if err != nil {
		return nil, s.fileError("pack", path, err)
	}
	return resp.Body, nil
}

// skippedComment begins the comment that tells what is not in an archive.
const skippedComment = "orchard-skipped "

// SkippedEntry reports whether a header of a downloaded archive stands for something that
// could not be packed, or not as it should be, and what and why.
func SkippedEntry(h *tar.Header) (path, reason string, skipped bool) {
	text, ok := strings.CutPrefix(h.PAXRecords["comment"], skippedComment)
	if h.Typeflag != tar.TypeXGlobalHeader || !ok {
		return "", "", false
	}
	var s struct{ Path, Reason string }
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "?", text, true
	}
	return s.Path, s.Reason, true
}
