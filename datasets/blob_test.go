package datasets

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/mem"
	"orchard/internal/seal"
)

func TestBlobs(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	random := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(random)
	for name, content := range map[string][]byte{"empty": {}, "short": []byte("hello"), "zeros": make([]byte, 1<<20), "random": random} {
		sha, err := PutBlob(t.Context(), s, content)
		if err != nil || sha != seal.Bytes(content) {
			t.Fatalf("%s: %s, %v", name, sha, err)
		}
		again, size, err := PutBlobFrom(t.Context(), s, iotest.HalfReader(bytes.NewReader(content)))
		if err != nil || again != sha || size != int64(len(content)) {
			t.Errorf("%s from a stream: %s of %d bytes, %v", name, again, size, err)
		}
		got, err := ReadBlob(t.Context(), s, sha, int64(len(content)))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if len(content) > 0 {
			if _, err := ReadBlob(t.Context(), s, sha, int64(len(content))-1); err == nil || !strings.Contains(err.Error(), "larger than") {
				t.Errorf("%s beyond the limit: %v", name, err)
			}
		}
		// A blob is a file that zstd reads.
		stored, _, err := objstore.ReadAll(t.Context(), s, BlobKey(sha), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewReader(bytes.NewReader(stored))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s by zstd: %d bytes, %v", name, len(got), err)
		}
		z.Close()
	}
}

func TestStreamAndBytesStoreTheSame(t *testing.T) {
	t.Parallel()
	a, b := &mem.Store{}, &mem.Store{}
	content := bytes.Repeat([]byte("some text "), 1<<16)
	sha, err := PutBlob(t.Context(), a, content)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := PutBlobFrom(t.Context(), b, iotest.OneByteReader(bytes.NewReader(content[:1000]))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := PutBlobFrom(t.Context(), b, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	x, _, _ := objstore.ReadAll(t.Context(), a, BlobKey(sha), 1<<30)
	y, _, _ := objstore.ReadAll(t.Context(), b, BlobKey(sha), 1<<30)
	if len(x) == 0 || !bytes.Equal(x, y) {
		t.Errorf("%d and %d bytes", len(x), len(y))
	}
}

func TestBlobErrors(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	sha := strings.Repeat("0", 64)
	if _, err := ReadBlob(t.Context(), s, sha, 1); exit.Code(err) != exit.Input || !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), sha) {
		t.Errorf("absent blob: %v", err)
	}
	if _, err := ReadBlob(t.Context(), s, "../etc", 1); exit.Code(err) != exit.Input {
		t.Errorf("bad name: %v", err)
	}
	broken := errors.New("source broke")
	if _, _, err := PutBlobFrom(t.Context(), s, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("broken source: %v", err)
	}
	for info := range s.List(t.Context(), "") {
		t.Errorf("a broken source left %s", info.Key)
	}
}

// What a keeper keeps is whole, valid to read, and within the limit.
func TestKeeper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &mem.Store{}
		limit := rapid.IntRange(1, 200).Draw(rt, "limit")
		piece := rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
			rapid.SliceOf(rapid.Byte()))
		in := bytes.Join(rapid.SliceOf(piece).Draw(rt, "pieces"), nil)
		text, err := Keeper{Store: s, Limit: limit}.Keep(t.Context(), in)
		if err != nil {
			rt.Fatal(err)
		}
		if !utf8.ValidString(text.Value) || len(text.Value) > limit || text.Bytes != int64(len(in)) {
			rt.Fatalf("text %+v of %d bytes", text, len(in))
		}
		if exact := utf8.Valid(in) && len(in) <= limit; exact != (text.Blob == "") || exact && text.Value != string(in) {
			rt.Fatalf("text %+v, exact %v", text, exact)
		}
		out, err := TextBytes(t.Context(), s, text)
		if err != nil || !bytes.Equal(in, out) {
			rt.Fatalf("content changed: %q, %v", out, err)
		}
	})
}

func TestKeeperShowsBothEnds(t *testing.T) {
	t.Parallel()
	s := &mem.Store{}
	long := "BEGIN" + strings.Repeat("é", 1000) + "END"
	text, err := Keeper{Store: s, Limit: 101}.Keep(t.Context(), []byte(long))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.Value, "BEGINé") || !strings.HasSuffix(text.Value, "éEND") || !strings.Contains(text.Value, "… the middle of 2008 bytes is left out …") {
		t.Errorf("value %q", text.Value)
	}
	text, err = Keeper{Store: s}.Keep(t.Context(), []byte("a\xffb"))
	if err != nil || text.Value != "a\uFFFDb" || text.Bytes != 3 || text.Blob == "" {
		t.Errorf("text %+v, %v", text, err)
	}
	if b, err := TextBytes(t.Context(), s, record.Text{Value: "x"}); string(b) != "x" || err != nil {
		t.Errorf("inline text: %q, %v", b, err)
	}
}
