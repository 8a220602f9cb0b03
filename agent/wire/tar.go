package wire

import "fmt"

// TarReport is what an archive became, also one that ended early: then it is in the
// error's text.
type TarReport struct {
	Path        string `json:"path"`
	Files       int64  `json:"files"`
	Directories int64  `json:"directories"`
	Links       int64  `json:"links"`
	Bytes       int64  `json:"bytes"` // of files
}

// String is the report for people.
func (r TarReport) String() string {
	return fmt.Sprintf("%d files (%d bytes), %d directories and %d links were written", r.Files, r.Bytes, r.Directories, r.Links)
}

// Of an archive that the agent packs. What could not be packed is told by a PAX global
// header with the record "comment" = SkippedComment + a JSON object of path and reason, which
// tar programs ignore, in the place where the entry would be; TrailerSkipped, an HTTP
// trailer, counts them, and TrailerEntries what was packed.
const (
	SkippedComment = "orchard-skipped "
	TrailerEntries = "X-Tar-Entries"
	TrailerSkipped = "X-Tar-Skipped"
)

// Skipped is an entry that is not in an archive. Bytes that are not UTF-8 are U+FFFD.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
