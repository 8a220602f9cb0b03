package runner

import (
	"context"

	"orchard/datasets"
	"orchard/internal/objstore"
)

// beside has the files of Source.Files made of the version that is the result, unless
// they are there. A key has one version for good, so whoever makes them makes the same.
func (o *output[Out]) beside(ctx context.Context, src Source[Out]) error {
	if src.Files == nil {
		return nil
	}
	if err := o.loadFiles(ctx); err != nil || o.job.cfg.DryRun || len(o.job.snapshot().Files) > 0 {
		return err
	}
	v, err := datasets.OpenIn(ctx, o.store, o.job.where.Name, o.job.snapshot().Digest)
	if err != nil {
		return err
	}
	err = src.Files(ctx, v, func(name string, b []byte) error {
		_, err := o.putFile(ctx, name, objstore.Bytes(b))
		return err
	})
	if err != nil {
		return err
	}
	return o.saveFiles(ctx)
}
