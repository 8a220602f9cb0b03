package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orchard/internal/logx"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient/rest"
)

// box is one sandbox. Safe for concurrent use.
type box struct {
	client *rest.Client
	id     string

	// The heartbeat's; nil without a lease. Set before the box is handed out.
	endBeat func()
	beating sync.WaitGroup
}

var _ sandbox.Sandbox = (*box)(nil)

// ID implements sandbox.Sandbox.
func (b *box) ID() string { return b.id }

func (b *box) path(rest string) string { return "/sandboxes/" + b.id + rest }

// keep sends heartbeats, three to a lease, until Close. It outlives the context of
// Create, but not its logger.
func (b *box) keep(ctx context.Context, lease time.Duration) {
	ctx, b.endBeat = context.WithCancel(context.WithoutCancel(ctx))
	b.beating.Go(func() {
		tick := time.NewTicker(lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := lost(b.id, b.client.Call(ctx, rest.Request{Method: http.MethodPost, Path: b.path("/heartbeat")}))
			switch {
			case sandbox.IsLost(err): // the next command says so
				return
			case err != nil && ctx.Err() == nil:
				zerolog.Ctx(ctx).Warn().Err(err).Str(logx.Sandbox, b.id).Msg("heartbeat not taken")
			}
		}
	})
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	if b.endBeat != nil {
		b.endBeat()
		b.beating.Wait()
	}
	err := b.client.Call(ctx, rest.Request{Method: http.MethodDelete, Path: b.path("")})
	if err != nil {
		return fmt.Errorf("close sandbox %s: %w", b.id, err)
	}
	return nil
}
