package runner

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// maxBlob bounds what is read of one blob into memory.
const maxBlob = 1 << 30

// openInputs opens the versions of --in, unless the stage has inputs of its own.
func (j *job) openInputs(ctx context.Context) error {
	j.inputs = j.stage.Inputs
	if j.inputs == nil {
		for _, uri := range j.cfg.In {
			v, err := datasets.Open(ctx, j.deps.Open, uri)
			if err != nil {
				return fmt.Errorf("--in: %w", err)
			}
			j.opened = append(j.opened, v)
			j.inputs = append(j.inputs, v.Input("in"))
		}
	}
	for _, in := range j.inputs {
		j.result.Inputs = append(j.result.Inputs, in.URI)
	}
	return nil
}

// apart refuses the name of an input for the result: without @version it would then mean
// the result, for a rerun of the same command too.
func (j *job) apart() error {
	for _, in := range j.inputs {
		if in.Kind != datasets.InputDataset {
			continue
		}
		if from, err := datasets.Parse(in.URI); err == nil && from.Root == j.where.Root && from.Name == j.where.Name {
			return exit.Configf("--out: %s is an input too; give the result another name, since without @version that one means its newest", j.where)
		}
	}
	return nil
}

// output is where a job's result goes.
type output[Out record.Row] struct {
	job    *job
	store  objstore.Store
	keeper datasets.Keeper
}

func openOutput[Out record.Row](ctx context.Context, j *job) (*output[Out], error) {
	store, err := j.deps.Open(ctx, j.where.Root)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &output[Out]{job: j, store: store, keeper: datasets.Keeper{Store: store}}, nil
}

// find takes over the version of this key when there is one.
func (o *output[Out]) find(ctx context.Context, src Source[Out]) (found bool, err error) {
	digest, found, err := datasets.FindKey(ctx, o.store, o.job.where.Name, o.job.result.Key)
	if err != nil {
		return false, err
	}
	if !found {
		if err := sameKind[Out](ctx, o.store, o.job.where.Name); err != nil {
			return false, fmt.Errorf("--out: %w", err)
		}
		return false, nil
	}
	v, err := datasets.OpenIn(ctx, o.store, o.job.where.Name, digest)
	if err != nil {
		return false, err
	}
	if !o.job.cfg.DryRun {
		if err := datasets.Adopt(ctx, v); err != nil {
			return false, err
		}
	}
	return true, o.describe(ctx, src, v, StatusAlready)
}

// sameKind refuses rows of another kind than those that lie under a name.
func sameKind[Out record.Row](ctx context.Context, store objstore.Store, name string) error {
	v, err := datasets.OpenIn(ctx, store, name, "")
	if err != nil { // mostly since there is none; who reads it will say what else is wrong with it
		return nil
	}
	var row Out
	if kind, _ := row.Schema(); v.Manifest().Schema.Name != kind {
		return exit.Configf("%s/%s holds %s rows, and these are %s rows; give them another name", store, name, v.Manifest().Schema.Name, kind)
	}
	return nil
}

// Takes says why a dataset takes no rows of this kind, which a stage asks for those that it
// makes after its own; nil when it does.
func Takes[Out record.Row](ctx context.Context, d Deps, where datasets.Location) error {
	store, err := d.WithDefaults().Open(ctx, where.Root)
	if err != nil {
		return err
	}
	return sameKind[Out](ctx, store, where.Name)
}

// describe makes the version's numbers those of the result.
func (o *output[Out]) describe(ctx context.Context, src Source[Out], v *datasets.Version, status string) error {
	outcomes := map[string]int64{}
	if src.Outcome != nil {
		for row, err := range datasets.Rows[Out](ctx, v) {
			if err != nil {
				return err
			}
			outcomes[src.Outcome(row)]++
		}
	}
	m := v.Manifest()
	o.job.update(func(r *Result) {
		r.Status, r.Digest, r.URI = status, v.Digest(), v.Location().String()
		r.RowsIn, r.RowsOut, r.Dropped, r.Outcomes, r.Usage = m.RowsIn, m.Rows, m.Dropped, outcomes, m.Run.Usage
	})
	return nil
}

// commit makes what was written the version of this key, or adopts the one that
// another run committed first.
func (o *output[Out]) commit(ctx context.Context, w *datasets.Writer[Out], src Source[Out]) error {
	r := o.job.snapshot()
	if err := r.balance(); err != nil {
		return err
	}
	digest, adopted, err := w.Commit(ctx, datasets.Meta{
		Stage: o.job.made, Inputs: o.job.inputs, RowsIn: r.RowsIn, Dropped: r.Dropped, Usage: r.Usage,
		Started: o.job.began, Committed: o.job.deps.Now(),
	})
	if err != nil {
		return err
	}
	if adopted {
		v, err := datasets.OpenIn(ctx, o.store, o.job.where.Name, digest)
		if err != nil {
			return err
		}
		o.job.log.Warn().Str("digest", digest).Str("left", w.Written()).
			Msg("another run of the same key committed other content first; its version is the result, and that of this run is left")
		o.job.update(func(r *Result) { r.Left = w.Written() })
		return o.describe(ctx, src, v, StatusDone)
	}
	o.job.update(func(r *Result) {
		r.Status, r.Digest, r.URI = StatusDone, digest, o.job.where.At(digest).String()
	})
	return nil
}

// keep is Tools.Keep and Pass.Keep.
func (o *output[Out]) keep(ctx context.Context, b []byte) (record.Text, error) {
	return o.keeper.Keep(ctx, b)
}

// putBlob stores a blob beside the result.
func (o *output[Out]) putBlob(ctx context.Context, body objstore.Body) (string, error) {
	r, err := body.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	sha, _, err := datasets.PutBlobFrom(ctx, o.store, r)
	return sha, err
}

// openBlob opens a blob of the output or of an input.
func (o *output[Out]) openBlob(ctx context.Context, sha string) (io.ReadCloser, error) {
	r, err := datasets.OpenBlob(ctx, o.store, sha)
	for _, v := range o.job.opened {
		if !errors.Is(err, objstore.ErrNotFound) {
			break
		}
		r, err = v.Blob(ctx, sha)
	}
	return r, err
}

// blob is Tools.Blob.
func (o *output[Out]) blob(ctx context.Context, sha string) ([]byte, error) {
	r, err := o.openBlob(ctx, sha)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxBlob+1))
	if err == nil && len(b) > maxBlob {
		err = fmt.Errorf("blob %s: larger than %d bytes", sha, maxBlob)
	}
	return b, err
}

// unitBlob is Tools.Blob. A blob that cannot be read is the store's trouble and never the
// fault of the unit that wants it: the unit stays unfinished.
func (o *output[Out]) unitBlob(ctx context.Context, sha string) ([]byte, error) {
	b, err := o.blob(ctx, sha)
	if err != nil {
		return nil, exit.Retryf("read what the unit needs: %w", err)
	}
	return b, nil
}

// bring copies the blobs that a row names from the inputs to the output, when those
// are different roots: a version is whole by itself.
func (o *output[Out]) bring(ctx context.Context, row Out) error {
	elsewhere := false
	for _, v := range o.job.opened {
		elsewhere = elsewhere || v.Store().String() != o.store.String()
	}
	if !elsewhere {
		return nil
	}
	for _, sha := range arrowio.Blobs(row) {
		r, err := datasets.OpenBlob(ctx, o.store, sha)
		if errors.Is(err, objstore.ErrNotFound) {
			if r, err = o.openBlob(ctx, sha); err == nil {
				_, _, err = datasets.PutBlobFrom(ctx, o.store, r)
			}
		}
		if r != nil {
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return fmt.Errorf("bring blob %s: %w", sha, err)
		}
	}
	return nil
}
