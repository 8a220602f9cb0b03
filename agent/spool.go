package agent

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	spoolInMemory = 32 << 10 // a stream up to this size never becomes a file
	spoolLimit    = 1 << 30  // a stream's file holds no more; then its middle goes
	tmpfsLimit    = 64 << 20 // there, a file is memory
	diskReserve   = 64 << 20 // left free for the sandbox's own use
	reserveCheck  = 4 << 20  // how often free space is looked at, in bytes written
)

// spool keeps what one stream printed: all of it up to a limit, beyond that the
// first half of the limit and, as a ring, the last. Counts are always exact. It
// starts in memory and moves to a file; when there is no room for one, what has
// been stored so far is the limit. Writing never fails. Safe for concurrent use.
type spool struct {
	dir  *spoolDir
	name string // of its file, should it need one
	most int64  // bytes in memory, then it needs one

	mu    sync.Mutex
	total int64 // printed
	limit int64 // stored at most
	room  int64 // when total reaches this, free space is looked at again
	mem   []byte
	file  *os.File // nil: all is in mem
	lost  bool     // the file cannot be written any more: only its first good bytes count
	good  int64
	last  atomic.Int64
	grown chan struct{} // closed at the next write; nil when nobody waits
}

// newSpool makes an empty spool that has a file when more than whole bytes come.
func newSpool(dir *spoolDir, name string, whole int64) *spool {
	s := &spool{dir: dir, name: name, most: min(whole, spoolInMemory), limit: dir.limit, room: reserveCheck}
	s.last.Store(time.Now().UnixNano())
	return s
}

var _ io.Writer = (*spool)(nil)

// Write stores and counts b; it returns len(b), nil.
func (s *spool) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Store(time.Now().UnixNano())
	if s.grown != nil {
		defer close(s.grown)
		s.grown = nil
	}
	if s.file == nil && s.total+int64(len(b)) > s.most && s.limit > spoolInMemory {
		s.toFile()
	}
	for rest := b; len(rest) > 0; {
		if s.lost {
			s.total += int64(len(rest))
			break
		}
		if s.file != nil && s.total >= s.room && s.total < s.limit {
			s.checkRoom()
		}
		at, n := s.place(s.total, int64(len(rest)))
		if !s.store(rest[:n], at) {
			continue // the limit is now what is stored: the same bytes have another place
		}
		s.total += n
		rest = rest[n:]
	}
	return len(b), nil
}

// place maps a stream offset to where it is stored, and how many of n bytes lie there
// in one piece.
func (s *spool) place(offset, n int64) (at, run int64) {
	head := s.limit / 2
	if offset < s.limit {
		return offset, min(n, s.limit-offset)
	}
	ring := s.limit - head
	at = head + (offset-head)%ring
	return at, min(n, s.limit-at)
}

// store reports whether the bytes lie at at; false means: look again where they go.
func (s *spool) store(b []byte, at int64) bool {
	if s.file == nil {
		if need := int(at) + len(b); need > len(s.mem) {
			s.mem = append(s.mem, make([]byte, need-len(s.mem))...)
		}
		copy(s.mem[at:], b)
		return true
	}
	_, err := s.file.WriteAt(b, at)
	if err == nil {
		return true
	}
	if full := max(s.total, spoolInMemory); full < s.limit { // no room to grow: now it is a ring
		s.limit = full
		return false
	}
	s.lost, s.good = true, s.total
	if s.total > s.limit {
		s.good = s.limit / 2
	}
	return false
}

// toFile moves what is in memory to a file, or settles for memory.
func (s *spool) toFile() {
	file, err := s.dir.create(s.name)
	if err != nil {
		s.limit = spoolInMemory
		return
	}
	if isTmpfs(file) {
		s.limit = min(s.limit, tmpfsLimit)
	}
	// This much must fit: it becomes the ring should the disk fill up.
	err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, spoolInMemory)
	if err != unix.ENOSPC && err != unix.EDQUOT {
		_, err = file.WriteAt(s.mem, 0)
	}
	if err != nil || freeOn(file) < s.dir.reserve {
		file.Close()
		s.dir.remove(s.name)
		s.limit = spoolInMemory
		return
	}
	s.file, s.mem = file, nil
}

// checkRoom ends the growth of the file when the disk is nearly full.
func (s *spool) checkRoom() {
	if freeOn(s.file) < s.dir.reserve {
		s.limit = max(s.total, spoolInMemory)
	}
	s.room = s.total + reserveCheck
}

// freeOn is how many bytes can still be written where f is.
func freeOn(f *os.File) int64 {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return math.MaxInt64 // then a write will tell
	}
	return int64(fs.Bavail) * fs.Bsize
}

func isTmpfs(f *os.File) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}

// printed is how many bytes were written in all.
func (s *spool) printed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// kept is how many bytes were written in all, and how many of the first and of the
// last are there; head is total when nothing was dropped.
func (s *spool) kept() (total, head, tail int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.extent()
}

func (s *spool) extent() (total, head, tail int64) {
	if s.lost {
		return s.total, s.good, 0
	}
	if s.total <= s.limit {
		return s.total, s.total, 0
	}
	return s.total, s.limit / 2, s.limit - s.limit/2
}

var errDropped = errors.New("the bytes at this offset were not kept")

// ReadAt implements io.ReaderAt over stream offsets.
func (s *spool) ReadAt(b []byte, offset int64) (int, error) {
	read := 0
	for read < len(b) {
		n, err := s.readRun(b[read:], offset+int64(read))
		read += n
		if err != nil {
			return read, err
		}
	}
	return read, nil
}

var _ io.ReaderAt = (*spool)(nil)

func (s *spool) readRun(b []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total, head, tail := s.extent()
	if offset >= total {
		return 0, io.EOF
	}
	end := total
	if offset < head {
		end = head
	} else if offset < total-tail {
		return 0, errDropped
	}
	at, n := s.place(offset, min(int64(len(b)), end-offset))
	if s.file == nil {
		return copy(b[:n], s.mem[at:]), nil
	}
	read, err := s.file.ReadAt(b[:n], at)
	if err == io.EOF { // user code cut its own file short: the rest is as a hole
		clear(b[read:n])
		return int(n), nil
	}
	return read, err
}

// path is the file's, "" when there is none or it is not the whole.
func (s *spool) path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if total, head, _ := s.extent(); s.file == nil || head < total {
		return ""
	}
	return s.dir.path(s.name)
}

// growth is closed when something is printed after this call.
func (s *spool) growth() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return s.grown
}

// lastWrite is when something was printed, or the spool was made.
func (s *spool) lastWrite() time.Time { return time.Unix(0, s.last.Load()) }

// cost is what the spool holds, in bytes.
func (s *spool) cost() (memory, disk int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return int64(cap(s.mem)), 0
	}
	return 0, min(s.total, s.limit)
}

// drop gives all of it back; the spool must not be used any more.
func (s *spool) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
		s.dir.remove(s.name)
	}
	s.mem = nil
}
