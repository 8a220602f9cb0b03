package datasets

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"orchard/datasets/record"
	"orchard/internal/objstore/mem"
)

// benchRows is rollouts as they are: a few dozen messages of repetitive text.
func benchRows(n int) (rows []record.Rollout, text []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return error if nil the file test in of package import main git diff line index expected got value string int context")
	for i := range n {
		row := record.Rollout{RolloutID: fmt.Sprintf("%064d", i), TaskID: "task", Policy: "scripted"}
		for j := range 40 {
			var b strings.Builder
			for b.Len() < 2000 {
				fmt.Fprintf(&b, "%s %d ", words[r.IntN(len(words))], r.IntN(1000))
			}
			row.Trajectory.Messages = append(row.Trajectory.Messages, record.Message{Role: "tool", Content: b.String(), Step: int64(j)})
			text = append(text, b.String()...)
		}
		rows = append(rows, row)
	}
	return rows, text
}

// rawZstd is how fast this machine compresses the same text, for a ratio that holds on
// any machine.
func rawZstd(b *testing.B, text []byte, decode bool) (mbPerSec float64) {
	b.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	packed := z.EncodeAll(text, nil)
	best := time.Hour
	for range 5 {
		start := time.Now()
		if decode {
			_, err = d.DecodeAll(packed, nil)
		} else {
			z.EncodeAll(text, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return float64(len(text)) / 1e6 / best.Seconds()
}

func BenchmarkWrite(b *testing.B) {
	rows, text := benchRows(400)
	raw := rawZstd(b, text, false)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		w, err := NewWriter[record.Rollout](&mem.Store{}, "rollouts", WriterOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			if err := w.Write(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
		if _, _, err := w.Commit(b.Context(), meta(len(rows), 0)); err != nil {
			b.Fatal(err)
		}
	}
	ratio(b, len(text), raw)
}

func BenchmarkScan(b *testing.B) {
	for name, columns := range map[string][]string{"all": nil, "two columns": {"task_id", "verdict"}} {
		b.Run(name, func(b *testing.B) {
			rows, text := benchRows(400)
			s := &mem.Store{}
			w, err := NewWriter[record.Rollout](s, "rollouts", WriterOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range rows {
				if err := w.Write(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			digest, _, err := w.Commit(b.Context(), meta(len(rows), 0))
			if err != nil {
				b.Fatal(err)
			}
			v, err := OpenIn(b.Context(), s, "rollouts", digest)
			if err != nil {
				b.Fatal(err)
			}
			raw := rawZstd(b, text, true)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				n := 0
				for _, err := range Rows[record.Rollout](b.Context(), v, WithColumns(columns...)) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != len(rows) {
					b.Fatal(n)
				}
			}
			ratio(b, len(text), raw)
		})
	}
}

// ratio reports the time taken as a multiple of plain zstd on the same text.
func ratio(b *testing.B, size int, raw float64) {
	b.Helper()
	took := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(took/(float64(size)/1e6/raw), "x-raw-zstd")
}
