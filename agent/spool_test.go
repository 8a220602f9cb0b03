package agent

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is written, in whatever pieces, into whatever limit: counts are exact, the
// head and the tail are those of the stream, and the middle is either there or known
// to be missing.
func TestSpoolKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	dir, err := openSpoolDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	rapid.Check(t, func(t *rapid.T) {
		dir.limit = rapid.Int64Range(spoolInMemory+1, 200<<10).Draw(t, "limit")
		dir.reserve = rapid.SampledFrom([]int64{0, 1 << 62}).Draw(t, "reserve") // room, or none for a file
		s := newSpool(dir, "stream", rapid.Int64Range(1, 1<<20).Draw(t, "whole"))
		defer s.drop()
		checkSpool(t, s, writeSome(t, s))
	})
}

// The same on a disk that fills up.
func TestSpoolOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=120k"); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	dir, err := openSpoolDir(small)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	dir.reserve = 0
	rapid.Check(t, func(t *rapid.T) {
		s := newSpool(dir, "stream", 1<<20)
		defer s.drop()
		written := writeSome(t, s)
		checkSpool(t, s, written)
		if total, head, tail := s.kept(); len(written) > 130<<10 && (head < 16<<10 || tail < 16<<10) {
			t.Fatalf("of %d only %d and %d bytes are kept", total, head, tail)
		}
	})
}

// A file that can no longer be written at all costs what came after, not the count.
func TestSpoolWhoseFileFails(t *testing.T) {
	t.Parallel()
	dir, err := openSpoolDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.close()
	s := newSpool(dir, "stream", 1<<20)
	whole := bytes.Repeat([]byte("0123456789"), 10_000)
	_, _ = s.Write(whole[:50_000])
	s.file.Close()
	if s.file, err = os.Open(dir.path("stream")); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write(whole[50_000:])
	total, head, tail := s.kept()
	if total != 100_000 || head != 50_000 || tail != 0 || s.path() != "" {
		t.Errorf("got total %d, head %d, tail %d, path %q", total, head, tail, s.path())
	}
	got, err := io.ReadAll(io.NewSectionReader(s, 0, head))
	if err != nil || !bytes.Equal(got, whole[:head]) {
		t.Errorf("the head is wrong: %v", err)
	}
}

func writeSome(t *rapid.T, s *spool) []byte {
	var written []byte
	for _, size := range rapid.SliceOfN(rapid.IntRange(0, 100<<10), 0, 8).Draw(t, "pieces") {
		piece := make([]byte, size)
		for i := range piece {
			at := len(written) + i
			piece[i] = byte(at ^ at>>8 ^ at>>16)
		}
		if n, err := s.Write(piece); n != size || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		written = append(written, piece...)
	}
	return written
}

func checkSpool(t *rapid.T, s *spool, written []byte) {
	total, head, tail := s.kept()
	if total != int64(len(written)) || s.printed() != total || head+tail > total {
		t.Fatalf("got total %d, head %d, tail %d of %d", total, head, tail, len(written))
	}
	for _, part := range []struct{ from, to int64 }{{0, head}, {total - tail, total}} {
		got, err := io.ReadAll(io.NewSectionReader(s, part.from, part.to-part.from))
		if err != nil || !bytes.Equal(got, written[part.from:part.to]) {
			t.Fatalf("bytes %d to %d of %d are wrong (%v)", part.from, part.to, total, err)
		}
	}
	if head < total {
		if _, err := s.ReadAt(make([]byte, 1), head); err != errDropped {
			t.Fatalf("the first dropped byte: got %v", err)
		}
	}
	if file := s.path(); file != "" {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, written) {
			t.Fatalf("the file has %d bytes of %d (%v)", len(got), len(written), err)
		}
	}
}
