package agent

import (
	"bytes"
	"io"
)

// noise is what an interactive bash without a terminal says first, before it reads
// any of the user's files.
var noise = [][]byte{
	[]byte("bash: cannot set terminal process group ("),
	[]byte("bash: no job control in this shell\n"),
}

// noiseFilter drops those two lines from the very start of a stream, and nothing
// else: a line that only looks like one, later, is the user's.
type noiseFilter struct {
	into    io.Writer
	pending []byte
	dropped int // how many of noise are dealt with
}

var _ io.Writer = (*noiseFilter)(nil)

// Write implements io.Writer; it returns len(b), nil.
func (f *noiseFilter) Write(b []byte) (int, error) {
	if f.dropped == len(noise) {
		return f.into.Write(b)
	}
	f.pending = append(f.pending, b...)
	for f.dropped < len(noise) {
		want := noise[f.dropped]
		have := f.pending[:min(len(f.pending), len(want))]
		if !bytes.HasPrefix(want, have) {
			f.dropped++ // a shell may say only one of them
			continue
		}
		end := bytes.IndexByte(f.pending, '\n')
		if end < 0 && len(f.pending) < 256 {
			return len(b), nil // it may become that line
		}
		f.pending = f.pending[end+1:]
		f.dropped++
	}
	f.flush()
	return len(b), nil
}

// flush passes on what was held back; to be called when the stream has ended.
func (f *noiseFilter) flush() {
	_, _ = f.into.Write(f.pending)
	f.pending, f.dropped = nil, len(noise)
}
