package command

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A log gets a line now and then, a terminal one line that is drawn over.
func TestMeter(t *testing.T) {
	t.Parallel()
	for _, bar := range []bool{false, true} {
		var out bytes.Buffer
		m := newMeter(&out, "tasks")
		now := time.Unix(1000, 0)
		m.now, m.begin, m.last, m.bar = func() time.Time { return now }, now, now, bar
		for i := range int64(100) {
			now = now.Add(500 * time.Millisecond)
			m.set(i+1, 100, (i+1)*1_000_000, "objects")
		}
		m.end()
		text := out.String()
		if bar {
			if !strings.Contains(text, "\r\x1b[K[############............] tasks  50/100 objects  50 MB  2.0 MB/s") || strings.Contains(text, "\n") || !strings.HasSuffix(text, "\r\x1b[K") {
				t.Errorf("bar: %q", text)
			}
			continue
		}
		if strings.Count(text, "\n") != 5 || !strings.HasPrefix(text, "tasks  20/100 objects  20 MB  2.0 MB/s\n") || strings.Contains(text, "\r") {
			t.Errorf("lines: %q", text)
		}
	}
}

func TestSizesAndAges(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"1": 1, "100B": 100, "1kB": 1000, "256MB": 256e6, "1.5 GB": 1.5e9, "64MiB": 64 << 20, "0": -1, "-5MB": -1, "MB": -1, "5mb": -1, "1e30": -1, "": -1} {
		got, err := parseSize("--x", s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("size %q: %d, want %d", s, got, want)
		}
	}
	for s, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "0.5d": 12 * time.Hour, "36h": 36 * time.Hour, "0s": 0, "d": -1, "-1h": -1, "x": -1, "": -1} {
		got, err := parseAge("--x", s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("age %q: %s, want %s", s, got, want)
		}
	}
}
