package gentest_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"orchard/datasets"
	"orchard/datasets/gentest"
	"orchard/datasets/record"
	"orchard/datasets/transfer"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
)

// The benchmarks compare with the bare thing in the same run, so that their ratios hold
// on any machine.
const benchRollouts = 1500 // about 130 MB of text

// bench is a version of rollouts and their text in blocks as batches have them.
var bench = sync.OnceValue(func() *world {
	w := &world{}
	g := gentest.New(1)
	var block []byte
	for i := range benchRollouts {
		r := g.Rollout(i)
		w.rows = append(w.rows, r)
		for _, m := range r.Trajectory.Messages {
			block = append(append(block, m.Content...), m.Reasoning...)
		}
		w.text += gentest.TextBytes(r)
		if len(block) > 8<<20 || i == benchRollouts-1 {
			w.blocks, block = append(w.blocks, block), nil
		}
	}
	return w
})

type world struct {
	rows   []record.Rollout
	text   int64
	blocks [][]byte
}

// version is the rows as a version in a folder, which the end of the benchmark removes.
func (w *world) version(b *testing.B, shardBytes int64) (*datasets.Version, *dir.Store) {
	b.Helper()
	s, err := dir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	digest := w.write(b, s, shardBytes)
	v, err := datasets.OpenIn(b.Context(), s, "rollouts", digest)
	if err != nil {
		b.Fatal(err)
	}
	return v, s
}

func (w *world) write(b *testing.B, s objstore.Store, shardBytes int64) string {
	b.Helper()
	out, err := datasets.NewWriter[record.Rollout](s, "rollouts", datasets.WriterOptions{ShardBytes: shardBytes})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range w.rows {
		if err := out.Write(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	digest, _, err := out.Commit(b.Context(), datasets.Meta{Stage: datasets.Stage{Name: "generate", Version: 1}, RowsIn: int64(len(w.rows)), Started: noon, Committed: noon})
	if err != nil {
		b.Fatal(err)
	}
	return digest
}

// cost is what something takes: the time on the clock, and that of all cores, which
// holds also on a machine that others use.
type cost struct{ wall, cpu time.Duration }

func now(b *testing.B) cost {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return cost{time.Duration(time.Now().UnixNano()), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

func since(b *testing.B, began cost) cost {
	b.Helper()
	c := now(b)
	return cost{c.wall - began.wall, c.cpu - began.cpu}
}

// compare reports a round of the benchmark as a share of what the bare thing takes.
func compare(b *testing.B, bare, began cost, what string) {
	b.Helper()
	all := since(b, began)
	b.ReportMetric(float64(bare.wall)*float64(b.N)/float64(all.wall), "of-"+what)
	b.ReportMetric(float64(bare.cpu)*float64(b.N)/float64(all.cpu), "cpu-of-"+what)
}

// zstdCost is the least that plain zstd needs for the text on all cores.
func (w *world) zstdCost(b *testing.B, decode bool) cost {
	b.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	packed := make([][]byte, len(w.blocks))
	for i, block := range w.blocks {
		packed[i] = e.EncodeAll(block, nil)
	}
	best := cost{time.Hour, time.Hour}
	for range 5 {
		next := make(chan int, len(w.blocks))
		for i := range w.blocks {
			next <- i
		}
		close(next)
		began := now(b)
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
				if err != nil {
					b.Error(err)
					return
				}
				defer d.Close()
				e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
				if err != nil {
					b.Error(err)
					return
				}
				var buf []byte
				for i := range next {
					if decode {
						buf, err = d.DecodeAll(packed[i], buf[:0])
					} else {
						buf = e.EncodeAll(w.blocks[i], buf[:0])
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		took := since(b, began)
		best = cost{min(best.wall, took.wall), min(best.cpu, took.cpu)}
	}
	return best
}

// each is how long one round took.
func each(b *testing.B) time.Duration { return b.Elapsed() / time.Duration(b.N) }

func BenchmarkWrite(b *testing.B) {
	w := bench()
	raw := w.zstdCost(b, false)
	b.SetBytes(w.text)
	began := now(b)
	for b.Loop() {
		s, err := dir.Open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		w.write(b, s, 0)
	}
	compare(b, raw, began, "raw-zstd")
}

func BenchmarkScan(b *testing.B) {
	w := bench()
	v, _ := w.version(b, 0)
	raw := w.zstdCost(b, true)
	scan := func(b *testing.B, want int, opts ...datasets.Option) {
		b.Helper()
		n := 0
		for _, err := range datasets.Rows[record.Rollout](b.Context(), v, opts...) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != want {
			b.Fatalf("%d rows", n)
		}
	}
	began := time.Now()
	scan(b, benchRollouts)
	whole := time.Since(began)
	for _, c := range []struct {
		name string
		rows int
		opts []datasets.Option
	}{
		{"all", benchRollouts, nil},
		{"unordered", benchRollouts, []datasets.Option{datasets.Unordered()}},
		{"one-core", benchRollouts, []datasets.Option{datasets.Workers(1)}},
		{"two-columns", benchRollouts, []datasets.Option{datasets.WithColumns("task_id", "verdict.outcome")}},
		{"no-row-passes", 0, []datasets.Option{datasets.Where("policy", "==", "scriptee")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(w.text)
			b.ReportAllocs()
			began := now(b)
			for b.Loop() {
				scan(b, c.rows, c.opts...)
			}
			compare(b, raw, began, "raw-zstd")
			b.ReportMetric(float64(whole)/float64(each(b)), "x-whole-scan")
		})
	}
}

// BenchmarkHash is what the comparison of hashes costs of a scan on one core.
func BenchmarkHash(b *testing.B) {
	w := bench()
	v, s := w.version(b, 0)
	began := time.Now()
	for _, err := range datasets.Rows[record.Rollout](b.Context(), v, datasets.Workers(1)) {
		if err != nil {
			b.Fatal(err)
		}
	}
	scan := time.Since(began)
	b.SetBytes(v.Manifest().Bytes)
	for b.Loop() {
		for _, shard := range v.Manifest().Shards {
			r, _, err := s.Open(b.Context(), "rollouts/data/"+shard.SHA256+".arrow", 0, -1)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(sha256.New(), r); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	}
	b.ReportMetric(float64(each(b))/float64(scan), "of-scan")
}

// BenchmarkPull copies a version to another folder, and the same objects as they are.
func BenchmarkPull(b *testing.B) {
	w := bench()
	v, s := w.version(b, 8<<20)
	plain := func() cost {
		to, err := dir.Open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		began := now(b)
		var all sync.WaitGroup
		room := make(chan struct{}, transfer.DefaultWorkers)
		for _, shard := range v.Manifest().Shards {
			all.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				key := "rollouts/data/" + shard.SHA256 + ".arrow"
				if _, err := to.Create(b.Context(), key, stored{b, s, key, shard.Bytes}); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		return since(b, began)
	}
	one, two := plain(), plain()
	raw := cost{min(one.wall, two.wall), min(one.cpu, two.cpu)}
	b.SetBytes(v.Manifest().Bytes)
	began := now(b)
	for b.Loop() {
		to, err := dir.Open(b.TempDir())
		if err == nil {
			_, err = transfer.Copy(b.Context(), v, to, transfer.Options{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	compare(b, raw, began, "raw-copy")
}

// stored is an object as the content of another, unchecked.
type stored struct {
	b    *testing.B
	s    objstore.Store
	key  string
	size int64
}

func (s stored) Size() int64 { return s.size }
func (s stored) Open() (io.ReadCloser, error) {
	r, _, err := s.s.Open(s.b.Context(), s.key, 0, -1)
	return r, err
}

// BenchmarkSort writes tasks that come in no order through temporary files.
func BenchmarkSort(b *testing.B) {
	g := gentest.New(1)
	var tasks []record.Task
	var text int64
	for i := range 20_000 {
		t := g.Task(i)
		tasks = append(tasks, t)
		text += int64(len(t.Statement) + len(t.GoldPatch.Value) + len(t.TestPatch.Value) + len(t.Hints))
	}
	for _, budget := range []int64{4 << 20, 1 << 40} {
		b.Run(fmt.Sprintf("%d-MB", min(budget>>20, 999)), func(b *testing.B) {
			b.SetBytes(text)
			for b.Loop() {
				s, err := dir.Open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				out, err := datasets.NewWriter[record.Task](s, "tasks", datasets.WriterOptions{Sort: true, SortBytes: budget})
				if err != nil {
					b.Fatal(err)
				}
				for _, t := range tasks {
					if err := out.Write(b.Context(), t); err != nil {
						b.Fatal(err)
					}
				}
				if _, _, err := out.Commit(b.Context(), datasets.Meta{Stage: datasets.Stage{Name: "generate", Version: 1}, RowsIn: int64(len(tasks)), Started: noon, Committed: noon}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
