package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/local"
)

// trial makes a sandbox of this machine's programs and ends it.
func trial(ctx context.Context, o Options) []Finding {
	f := Finding{Name: "sandbox", Status: Fail, Means: "The parts are there, but a whole sandbox does not start."}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	st, took, err := trySandbox(ctx, o)
	switch {
	case err != nil:
		f.Found = err.Error()
		f.Fix = "If it speaks of an overlay or of a tree's attributes, keep sandboxes on another file system (--state-dir): ext4, xfs, btrfs or tmpfs."
		return []Finding{f}
	case st.Phase != control.Ready:
		f.Found = st.Reason + ": " + st.Message
		return []Finding{f}
	}
	return []Finding{{Name: "sandbox", Status: OK, Found: fmt.Sprintf("ready in %v, limits %s", took.Round(time.Millisecond), st.Limits)}}
}

func trySandbox(ctx context.Context, o Options) (st control.State, took time.Duration, err error) {
	// On the file system that sandboxes will use, and away from a service that may run there.
	dir, err := os.MkdirTemp(o.StateDir, "doctor-")
	if err != nil {
		return st, 0, err
	}
	defer os.RemoveAll(dir)
	r, err := local.New(ctx, local.Options{StateDir: dir, AgentPath: o.AgentPath, Cold: true})
	if err != nil {
		return st, 0, err
	}
	defer func() {
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
	}()
	const id = "doctor"
	begin := time.Now()
	if _, err := r.Start(ctx, sandbox.Spec{ID: id, Image: local.HostImage, CPU: "1", Memory: "256Mi"}); err != nil {
		return st, 0, err
	}
	st, err = r.Wait(ctx, id)
	return st, time.Since(begin), err
}
