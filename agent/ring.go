package agent

// ring keeps the newest bytes of a stream, and counts all. It takes no more memory than
// it was given bytes for. Not safe for concurrent use.
type ring struct {
	size  int // at most kept
	bytes []byte
	total int64
}

// start is the offset of the oldest byte kept.
func (r *ring) start() int64 { return r.total - int64(len(r.bytes)) }

func (r *ring) write(b []byte) {
	for len(b) > 0 {
		var n int
		if room := r.size - len(r.bytes); room > 0 {
			n = min(room, len(b))
			r.bytes = append(r.bytes, b[:n]...)
		} else {
			n = copy(r.bytes[r.total%int64(r.size):], b)
		}
		r.total += int64(n)
		b = b[n:]
	}
}

// read copies what is kept from offset on, which must be within start and total.
func (r *ring) read(into []byte, offset int64) int {
	into = into[:min(int64(len(into)), r.total-offset)]
	for read := 0; read < len(into); {
		at := (offset + int64(read)) % int64(r.size)
		read += copy(into[read:], r.bytes[at:])
	}
	return len(into)
}
