package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"orchard/agent/wire"
	"orchard/internal/logx"
	"orchard/internal/sandbox/control"
)

// makeDirs makes the box's folders, which belong to the sandbox's root.
func (b *box) makeDirs(root *rootfs, ids idMap) error {
	dirs := []string{"", "upper", "work"}
	if root.goCache != "" {
		dirs = append(dirs, goUpper, goWork)
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(filepath.Join(b.fs(), dir), 0o755); err != nil {
			return err
		}
	}
	if root.goCache != "" {
		if err := seedGoCache(filepath.Join(b.fs(), goUpper)); err != nil {
			return err
		}
		dirs = append(dirs, filepath.Join(goUpper, "trim.txt"))
	}
	for _, dir := range dirs {
		if err := os.Lchown(filepath.Join(b.fs(), dir), ids.owner(), ids.owner()); err != nil {
			return err
		}
	}
	return nil
}

// listen makes the agent's socket, and this process's only reference to it.
func (b *box) listen() (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: b.r.reach(b.socket())})
	if err != nil {
		return nil, fmt.Errorf("make the agent's socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

func (b *box) removeCgroup(ctx context.Context, group *cgroup) {
	if group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
	defer cancel()
	if err := group.remove(ctx); err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Str(logx.Sandbox, b.state.Spec.ID).Msg("remove the cgroup of a sandbox")
	}
}

// healthy returns when the agent answers. The socket listens before the agent does, so
// the first request waits in it: there is nothing to poll.
func healthy(ctx context.Context, client http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, agentURL+"/v1/health", nil)
	if err != nil {
		return err
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask the agent for its health: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent says that it is not healthy: %s", resp.Status)
	}
	return nil
}

// agentURL is what a sandbox's transport leads to, whatever the host in it.
const agentURL = "http://sandbox"

// signed is a transport for the agent of this box.
func (b *box) signed() (http.RoundTripper, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Phase != control.Ready {
		return nil, control.ErrNotReady
	}
	return &wire.Transport{Base: b.client, Key: b.r.key, UID: b.state.UID}, nil
}
