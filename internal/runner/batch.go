package runner

import (
	"context"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Batch runs a stage that asks no model: fn reads the inputs and emits or drops rows.
// Nothing is committed until fn returns nil and the counts add up; a killed pass is
// repeated whole, with the same bytes. It is one shard, "1/1", which commits itself,
// so --mode commit only finds out whether that was done.
func Batch[Out record.Row](ctx context.Context, cfg Config, deps Deps, stage Stage, fn func(ctx context.Context, p *Pass[Out]) error) (Result, error) {
	j, err := start(ctx, cfg, deps, stage)
	if err != nil {
		return Failed(cfg, stage.Name, err)
	}
	if cfg.Mode == ModeCheck {
		return j.finish(j.check(ctx, nil))
	}
	return j.finish(runBatch(ctx, j, fn))
}

func runBatch[Out record.Row](ctx context.Context, j *job, fn func(ctx context.Context, p *Pass[Out]) error) error {
	if j.cfg.Shard.N > 1 {
		return exit.Configf("--shard: %s is not divided into shards; its only one is 1/1", j.stage.Name)
	}
	out, err := openOutput[Out](ctx, j)
	if err != nil {
		return err
	}
	if found, err := out.find(ctx, Source[Out]{}); err != nil {
		return err
	} else if found {
		return out.loadFiles(ctx)
	}
	switch {
	case j.cfg.DryRun:
		j.update(func(r *Result) { r.Status = StatusDryRun })
		return nil
	case j.cfg.Mode == ModePlan:
		return j.planned([]string{Shard{1, 1}.String()})
	case j.cfg.Mode == ModeCommit:
		return exit.Retryf("the work of %s is not done yet; run its shard 1/1", j.stage.Name)
	}
	w, err := datasets.NewWriter[Out](out.store, j.where.Name, datasets.WriterOptions{Sort: true})
	if err != nil {
		return err
	}
	defer w.Close()
	st := newStopping(ctx, j.cfg.Deadline, 0)
	defer st.end()
	stop := j.watch()
	err = fn(st.take, &Pass[Out]{Inputs: j.opened, out: out, writer: w})
	stop()
	if err == nil {
		err = out.saveFiles(st.take)
	}
	if err == nil {
		err = out.commit(st.take, w, Source[Out]{})
	}
	if err != nil && st.take.Err() != nil {
		return stopped(st.take)
	}
	return err
}

// Pass is the work of a Batch stage while it runs: where its inputs come from and
// where its rows go. For one goroutine, except Keep, PutBlob and PutFile.
type Pass[Out record.Row] struct {
	Inputs []*datasets.Version // of --in, in its order; empty when Stage.Inputs is set

	out    *output[Out]
	writer *datasets.Writer[Out]
}

// Read counts n rows as read. Every row read ends in one Emit or one Drop.
func (p *Pass[Out]) Read(n int64) { p.out.job.update(func(r *Result) { r.RowsIn += n }) }

// Drop counts a row that was read as left out, under a reason in snake_case.
func (p *Pass[Out]) Drop(reason string) { p.out.job.update(func(r *Result) { r.Dropped[reason]++ }) }

// Emit adds a row to the result, which is sorted by id. Two rows with the same id are
// an error. Blobs that the row names may lie beside an input.
func (p *Pass[Out]) Emit(ctx context.Context, row Out) error {
	if err := p.out.bring(ctx, row); err != nil {
		return err
	}
	if err := p.writer.Write(ctx, row); err != nil {
		return err
	}
	p.out.job.update(func(r *Result) { r.RowsOut++ })
	return nil
}

// Keep turns bytes of any length and encoding into a row's Text, storing a blob
// beside the result where the row cannot hold them.
func (p *Pass[Out]) Keep(ctx context.Context, b []byte) (record.Text, error) {
	return p.out.keep(ctx, b)
}

// PutBlob stores a blob beside the result and returns its sha256. Storing it again is
// no error.
func (p *Pass[Out]) PutBlob(ctx context.Context, body objstore.Body) (string, error) {
	return p.out.putBlob(ctx, body)
}
