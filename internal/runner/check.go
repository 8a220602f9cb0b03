package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// patience is how long a check waits for something that is away.
const patience = time.Minute

// check is a stage in ModeCheck: the store of --out answers and knows us, and so does what
// ready asks. Nothing is written, and the inputs, which an earlier stage may be making at
// the same time, are not opened. What stays away for as long as patience is taken
// for gone: the check stands before hours of work and is to end in a minute.
func (j *job) check(ctx context.Context, ready func(ctx context.Context) error) error {
	err := j.await(ctx, j.deps.Patience, func(ctx context.Context) error {
		err := j.checkStore(ctx)
		if err == nil && ready != nil {
			err = ready(ctx)
		}
		return err
	})
	switch {
	case err == nil:
		j.update(func(r *Result) { r.Status = StatusChecked })
		return nil
	case ctx.Err() != nil:
		return stopped(ctx)
	case exit.Code(err) == exit.Retry:
		return exit.Gonef("still so after %v: %w", j.deps.Patience, err)
	}
	return err
}

// settling is how long the first work of a stage waits for model and sandboxes: a Pod that has
// just started may be kept from them until the cluster's network knows it.
const settling = 10 * time.Second

// await tries again what is away for as long as is said.
func (j *job) await(ctx context.Context, most time.Duration, try func(context.Context) error) error {
	once := func() (struct{}, error) {
		err := classify(try(ctx))
		if err != nil && exit.Code(err) != exit.Retry {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = j.deps.Backoff
	_, err := backoff.Retry(ctx, once, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(most))
	var final *backoff.PermanentError
	if errors.As(err, &final) {
		err = final.Unwrap()
	}
	return err
}

func (j *job) checkStore(ctx context.Context) error {
	store, err := j.deps.Open(ctx, j.where.Root)
	if err == nil {
		if _, err = store.Stat(ctx, j.where.Name+"/check"); errors.Is(err, objstore.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
