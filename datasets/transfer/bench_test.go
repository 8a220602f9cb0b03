package transfer

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"orchard/datasets"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
)

type noise struct {
	ID  string `json:"id"`
	Raw []byte `json:"raw"`
}

func (n noise) Key() string         { return n.ID }
func (noise) Schema() (string, int) { return "noise", 1 }

// BenchmarkCopy copies a version of 128 MB from folder to folder. raw_ratio compares with
// copying the same objects through the same stores unchecked, in the same run.
func BenchmarkCopy(b *testing.B) {
	ctx := context.Background()
	from, err := dir.Open(b.TempDir())
	must(b, err)
	w, err := datasets.NewWriter[noise](from, "noise", datasets.WriterOptions{ShardBytes: 8 << 20})
	must(b, err)
	defer w.Close()
	r := rand.NewChaCha8([32]byte{1})
	for i := range 128 {
		raw := make([]byte, 1<<20)
		_, _ = r.Read(raw)
		must(b, w.Write(ctx, noise{fmt.Sprintf("%04d", i), raw}))
	}
	_, _, err = w.Commit(ctx, datasets.Meta{Stage: datasets.Stage{Name: "make", Version: 1}, RowsIn: 128})
	must(b, err)
	v, err := datasets.OpenIn(ctx, from, "noise", "")
	must(b, err)
	var checked, raw time.Duration
	b.SetBytes(v.Manifest().Bytes)
	for b.Loop() {
		raw += timed(b, func(to objstore.Store) error { return rawCopy(ctx, from, to) })
		checked += timed(b, func(to objstore.Store) error {
			_, err := Copy(ctx, v, to, Options{})
			return err
		})
	}
	b.ReportMetric(raw.Seconds()/checked.Seconds(), "raw_ratio")
	b.ReportMetric(float64(v.Manifest().Bytes)*float64(b.N)/1e6/checked.Seconds(), "copied_MB/s")
}

func timed(b *testing.B, do func(to objstore.Store) error) time.Duration {
	to, err := dir.Open(b.TempDir())
	must(b, err)
	begin := time.Now()
	must(b, do(to))
	return time.Since(begin)
}

// unchecked is an object of a store as the content of another.
type unchecked struct {
	objstore.Store
	objstore.Info
}

func (u unchecked) Size() int64 { return u.Info.Size }
func (u unchecked) Open() (io.ReadCloser, error) {
	r, _, err := u.Store.Open(context.Background(), u.Key, 0, -1)
	return r, err
}

func rawCopy(ctx context.Context, from, to objstore.Store) error {
	var g errgroup.Group
	g.SetLimit(DefaultWorkers)
	for info, err := range from.List(ctx, "noise/data/") {
		if err != nil {
			return err
		}
		g.Go(func() error {
			_, err := to.Create(ctx, info.Key, unchecked{from, info})
			return err
		})
	}
	return g.Wait()
}
