package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// TestStopLetsUnitsFinish: a unit that ends in the grace period is kept; none is begun.
func TestStopLetsUnitsFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 10)
	w.cfg.Workers = 1
	w.deps.Grace = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.src.Do = func(unit context.Context, u Unit, _ Tools) (record.Rollout, error) {
		cancel()
		return rollout(u), unit.Err()
	}
	r, err := w.run(ctx)
	if exit.Code(err) != exit.Retry || r.Status != StatusStopped || r.Units.Done != 1 || r.Units.Left != 9 {
		t.Errorf("%+v %+v %v", r, r.Units, err)
	}
	w.src.Do = newWorld("", 0).src.Do
	if r := w.must(t); r.Units.Reused != 1 || r.Units.Done != 9 {
		t.Errorf("the rerun: %+v", r.Units)
	}
}

// TestStopAbandons: a unit that does not end in the grace period is given up, and
// that is not held against it.
func TestStopAbandons(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 4)
	w.deps.Grace = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.src.Do = func(unit context.Context, u Unit, _ Tools) (record.Rollout, error) {
		cancel()
		<-unit.Done()
		return record.Rollout{}, fmt.Errorf("exec: %w", unit.Err())
	}
	r, err := w.run(ctx)
	if exit.Code(err) != exit.Retry || r.Status != StatusStopped || r.Units.Infra != 0 || r.Units.Left != 4 {
		t.Errorf("%+v %+v %v", r, r.Units, err)
	}
}

// TestFatalEndsAll: an error that concerns all units ends those that are running, too.
func TestFatalEndsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 8)
	w.cfg.Workers, w.deps.Grace = 4, time.Millisecond
	w.src.Do = func(unit context.Context, u Unit, _ Tools) (record.Rollout, error) {
		if u.ID == "u006" {
			return record.Rollout{}, exit.Gonef("the model was deleted")
		}
		<-unit.Done()
		return record.Rollout{}, unit.Err()
	}
	w.fails(t, exit.Gone, "the model was deleted")
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 4)
	w.cfg.Workers, w.cfg.Deadline, w.deps.Grace = 1, time.Millisecond, time.Millisecond
	w.src.Do = func(unit context.Context, u Unit, _ Tools) (record.Rollout, error) {
		<-unit.Done()
		return record.Rollout{}, unit.Err()
	}
	r := w.fails(t, exit.Retry, "--deadline")
	if r.Status != StatusStopped {
		t.Errorf("%+v", r)
	}
}

// fullStore has room for so many objects.
type fullStore struct {
	objstore.Store
	room *atomic.Int64
}

func (s fullStore) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	if s.room.Add(-1) < 0 {
		return objstore.Info{}, fmt.Errorf("create %s: %w", key, objstore.ErrNoSpace)
	}
	return s.Store.Create(ctx, key, body)
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	for room := range 12 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t.TempDir(), 8)
			var left atomic.Int64
			left.Store(int64(room))
			w.deps.Open = func(ctx context.Context, root string) (objstore.Store, error) {
				s, err := datasets.Stores(ctx, root)
				return fullStore{s, &left}, err
			}
			r, err := w.run(t.Context())
			if room >= 11 { // 8 units, a shard, a card, a manifest
				if err != nil {
					t.Errorf("with room for all: %v", err)
				}
				return
			}
			if exit.Code(err) != exit.Gone || r.URI != "" {
				t.Fatalf("exit %d: %v", exit.Code(err), err)
			}
			left.Store(1000)
			w.calls()
			if r := w.must(t); r.RowsOut != 8 || len(w.calls()) != 8-min(room, 8) {
				t.Errorf("after room was made: %+v", r.Units)
			}
		})
	}
}

// TestWorkers: never more units at once than --workers, and all of them together.
func TestWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t.TempDir(), 12)
	w.cfg.Workers = 3
	var mu sync.Mutex
	running, most := 0, 0
	all := make(chan struct{})
	w.src.Do = func(_ context.Context, u Unit, _ Tools) (record.Rollout, error) {
		mu.Lock()
		running++
		if most = max(most, running); most == 3 {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		mu.Unlock()
		<-all // the first three wait for each other
		mu.Lock()
		running--
		mu.Unlock()
		return rollout(u), nil
	}
	w.must(t)
	if most != 3 {
		t.Errorf("%d at once", most)
	}
}

// TestSeeds: a unit's seed depends on the run's seed and the unit alone.
func TestSeeds(t *testing.T) {
	t.Parallel()
	seeds := func(workers int, seed int64) []int64 {
		w := newWorld(t.TempDir(), 6)
		w.cfg.Workers, w.cfg.Seed = workers, seed
		out := make([]int64, 6)
		w.src.Do = func(_ context.Context, u Unit, tools Tools) (record.Rollout, error) {
			out[u.Work.(int)] = tools.Seed
			return rollout(u), nil
		}
		w.must(t)
		return out
	}
	a, b, c := seeds(1, 1), seeds(4, 1), seeds(4, 2)
	if !slices.Equal(a, b) || slices.Equal(a, c) || a[0] == a[1] {
		t.Error(a, b, c)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, exit.OK},
		{errors.New("x"), exit.Bug},
		{exit.Inputf("x: %w", objstore.ErrNoSpace), exit.Input}, // somebody knew better
		{fmt.Errorf("x: %w", objstore.ErrNoSpace), exit.Gone},
		{exit.Gonef("x: %w", objstore.ErrNoSpace), exit.Gone},
		{&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}, exit.Gone},
		{fmt.Errorf("x: %w", objstore.ErrUnavailable), exit.Retry},
		{&fs.PathError{Op: "open", Path: "f", Err: syscall.EACCES}, exit.Config},
		{&fs.PathError{Op: "open", Path: "f", Err: syscall.EROFS}, exit.Config},
		{&fs.PathError{Op: "mkdir", Path: "f", Err: syscall.ENOTDIR}, exit.Config},
		{&fs.PathError{Op: "mkdir", Path: "f", Err: syscall.ENOENT}, exit.Config},
	} {
		once := classify(c.err)
		if got := exit.Code(once); got != c.code {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.code)
		}
		if twice := classify(once); fmt.Sprint(twice) != fmt.Sprint(once) {
			t.Errorf("%v: a second time it is %v", once, twice)
		}
	}
}
