package main

import (
	"context"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"orchard/datasets"
	"orchard/internal/objstore"
)

// killer is a store whose n-th write, counted over all processes of a run, is the last
// thing that the run does: the process and the pipeline that started it are killed
// before or after it. KILL_COUNT names the file that counts, KILL_AT is "before:7".
type killer struct{ objstore.Store }

func init() {
	if os.Getenv("KILL_COUNT") != "" {
		openStore = func(ctx context.Context, root string) (objstore.Store, error) {
			s, err := datasets.Stores(ctx, root)
			return killer{s}, err
		}
	}
}

func (k killer) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	defer k.die("after", k.die("before", count()))
	return k.Store.Create(ctx, key, body)
}

func (k killer) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	defer k.die("after", k.die("before", count()))
	return k.Store.Swap(ctx, key, body, etag)
}

func (killer) die(when string, n int) int {
	if os.Getenv("KILL_AT") == when+":"+strconv.Itoa(n) {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return n
}

// count adds one to the shared count and returns it.
func count() int {
	f, err := os.OpenFile(os.Getenv("KILL_COUNT"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		panic(err)
	}
	b := make([]byte, 20)
	m, _ := f.Read(b)
	n, _ := strconv.Atoi(string(b[:m]))
	if _, err := f.WriteAt([]byte(strconv.Itoa(n+1)), 0); err != nil {
		panic(err)
	}
	return n + 1
}
