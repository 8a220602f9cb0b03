package datasets

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"orchard/datasets/record"
	"orchard/internal/objstore"
)

// DefaultInline is how much text a row holds itself, in bytes, when nothing else is said.
const DefaultInline = 32 << 10

// Keeper turns raw output into row text. Safe for concurrent use.
type Keeper struct {
	Store objstore.Store // for what does not fit
	Limit int            // most bytes of Value; 0 is DefaultInline
}

// Keep is b as a row holds it: valid UTF-8 of at most Limit bytes as it is; else the
// exact bytes go into a blob, and Value is the head and tail of them with U+FFFD for
// each run of invalid bytes.
func (k Keeper) Keep(ctx context.Context, b []byte) (record.Text, error) {
	limit := k.Limit
	if limit <= 0 {
		limit = DefaultInline
	}
	if t, ok := record.Exact(b); ok && len(b) <= limit {
		return t, nil
	}
	sha, err := PutBlob(ctx, k.Store, b)
	if err != nil {
		return record.Text{}, err
	}
	return record.Text{Value: shorten(b, limit), Blob: sha, Bytes: int64(len(b))}, nil
}

// shorten is valid text of at most limit bytes from the two ends of b.
func shorten(b []byte, limit int) string {
	if s := text(b); len(s) <= limit {
		return s
	}
	note := fmt.Sprintf("\n… the middle of %d bytes is left out …\n", len(b))
	room := limit - len(note)
	if room <= 0 {
		return head(text(b[:min(limit, len(b))]), limit)
	}
	first := room / 2
	last := room - first
	return head(text(b[:min(first, len(b))]), first) + note + tail(text(b[len(b)-min(last, len(b)):]), last)
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// head and tail are at most n bytes from an end of valid text, whole characters only.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func tail(s string, n int) string {
	i := len(s) - n
	if i <= 0 {
		return s
	}
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}
