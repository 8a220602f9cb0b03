package runner

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// errStopped is the error of a stage that was told to stop.
var errStopped = errors.New("stopped; finished work is kept, run again to go on")

// The causes for which a stage takes no more work.
var (
	errDeadline = errors.New("the --deadline came")
	errEnd      = errors.New("the stage is over")
)

// stopping is how a stage is told to stop.
type stopping struct {
	take context.Context // ends when the stage shall take no more work
	work context.Context // what running units see: ends a grace period after take
	// stop ends take for an error that concerns all units.
	stop context.CancelCauseFunc
	// end frees everything; it must be called.
	end func()
}

// newStopping ends take when ctx ends (SIGTERM) or the deadline comes, and work a
// grace period later, so that a unit about to finish may.
func newStopping(ctx context.Context, deadline, grace time.Duration) stopping {
	take, stop := context.WithCancelCause(ctx)
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer endWork()
		if deadline > 0 {
			t := time.AfterFunc(deadline, func() { stop(errDeadline) })
			defer t.Stop()
		}
		<-take.Done()
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-work.Done():
		}
	}()
	return stopping{take, work, stop, func() {
		stop(errEnd)
		endWork()
		<-done
	}}
}

// stopped is the error of a stage that was stopped, by the cause of its context.
func stopped(take context.Context) error {
	why := context.Cause(take)
	if errors.Is(why, context.Canceled) {
		why = errors.New("a signal came")
	}
	return exit.Retryf("%w (%w)", errStopped, why)
}

var errFull = errors.New("the disk or store is full; finished work is kept, make room and run again")

// classify marks errors of stores and disks that nobody has marked: a full disk is not
// worth trying again, a store that was away is, and a folder that cannot be written or
// made is the machine's fault.
func classify(err error) error {
	full := errors.Is(err, objstore.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	code := exit.Code(err)
	switch {
	case full && (code == exit.Bug || code == exit.Gone) && !errors.Is(err, errFull):
		return exit.Gonef("%w: %w", errFull, err)
	case code != exit.Bug:
		return err
	case errors.Is(err, objstore.ErrUnavailable):
		return exit.With(exit.Retry, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Config, err)
	}
	return err
}
