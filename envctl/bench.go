package envctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// benchResult is what a bench found. Times are of what worked.
type benchResult struct {
	Image       string         `json:"image"`
	Command     string         `json:"command"`
	Concurrency int            `json:"concurrency"`
	Sandboxes   int            `json:"sandboxes"`       // asked for
	Created     int            `json:"created"`         // made and ready
	Execs       int            `json:"execs"`           // asked for
	Succeeded   int            `json:"execs_succeeded"` // exit code 0
	Success     float64        `json:"success_share"`   // of all that was asked for
	Seconds     float64        `json:"seconds"`         // from the first create to the last exec
	ExecSeconds float64        `json:"exec_seconds"`    // from the first exec to the last
	PerSecond   float64        `json:"commands_per_second"`
	Create      percentiles    `json:"create_ms"`
	Exec        percentiles    `json:"exec_ms"`
	HoldSeconds float64        `json:"hold_seconds,omitempty"` // --hold
	Held        int            `json:"held,omitempty"`         // sandboxes that were still there at its end
	Errors      map[string]int `json:"errors"`                 // by kind
	LeftBehind  []string       `json:"left_behind,omitempty"`
	Stopped     bool           `json:"stopped,omitempty"`
}

type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func percentilesOf(times []time.Duration) percentiles {
	slices.Sort(times)
	at := func(share float64) float64 {
		if len(times) == 0 {
			return 0
		}
		i := int(math.Ceil(share*float64(len(times)))) - 1
		return math.Round(float64(times[max(i, 0)].Microseconds())/10) / 100
	}
	return percentiles{at(0.5), at(0.9), at(0.99), at(1)}
}

func (p *Program) bench() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "make sandboxes, run commands in each, end them, and tell how fast that was",
		Description: "All are made first, so that they live at the same time; then the commands run, those of one\n" +
			"sandbox one after the other. With --lease heartbeats keep them. Ctrl-C ends it early and ends\n" +
			"its sandboxes. The exit code is 1 when anything did not work.",
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "sandboxes", Aliases: []string{"n"}, Value: 10, Usage: "how many"},
			&cli.IntFlag{Name: "execs", Aliases: []string{"k"}, Value: 4, Usage: "commands in each"},
			&cli.IntFlag{Name: "concurrency", Aliases: []string{"c"}, Usage: "requests at a time; 0 is as many as sandboxes"},
			&cli.StringFlag{Name: "image", Value: "host", Usage: "`IMAGE`"},
			&cli.StringFlag{Name: "cmd", Value: "true", Usage: "`COMMAND` for the shell"},
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "of each command"},
			&cli.DurationFlag{Name: "hold", Usage: "keep all sandboxes for `TIME` after the commands, and look that none is lost"},
		}, specFlags()...),
		Action: func(c *cli.Context) error {
			if _, err := want(c, 0, 0); err != nil {
				return err
			}
			s, err := spec(c, c.String("image"))
			if err != nil {
				return err
			}
			b := &bench{program: p, spec: s, command: client.Command{Shell: c.String("cmd"), Timeout: c.Duration("timeout")}, execs: c.Int("execs"), hold: c.Duration("hold")}
			n, width := c.Int("sandboxes"), c.Int("concurrency")
			if n < 1 || b.execs < 0 || width < 0 || b.hold < 0 || s.ID != "" {
				return exit.Configf("bench: --sandboxes from 1, --execs, --concurrency and --hold from 0, and no --id")
			}
			if width == 0 {
				width = n
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				r := b.run(c.Context, sdk, n, width)
				if err := p.print(r, func(w io.Writer) { r.describe(w) }); err != nil {
					return err
				}
				switch {
				case r.Stopped:
					return context.Canceled
				case r.Success < 1 || len(r.LeftBehind) > 0:
					return status(1)
				}
				return nil
			})
		},
	}
}

type bench struct {
	program *Program
	spec    client.Spec
	command client.Command
	execs   int
	hold    time.Duration
	beating sync.WaitGroup // heartbeats

	mu      sync.Mutex
	boxes   []*client.Sandbox // all that may be there
	created []time.Duration
	ran     []time.Duration
	errors  map[string]int
	left    []string
}

// count takes how one request went.
func (b *bench) count(err error, took time.Duration, times *[]time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		name, _ := kind(err)
		var gone *client.Gone
		if errors.As(err, &gone) {
			name += " (" + gone.Reason + ")"
		}
		b.errors[name]++
		return
	}
	*times = append(*times, took)
}

func (b *bench) run(ctx context.Context, sdk *client.Client, n, width int) benchResult {
	b.errors = map[string]int{}
	began := time.Now()
	alive, stop := context.WithCancel(ctx)
	ready := b.create(alive, sdk, n, width)
	middle := time.Now()
	b.program.say("%d sandboxes ready after %v", len(ready), middle.Sub(began).Round(time.Millisecond))
	var work errgroup.Group
	work.SetLimit(width)
	for _, box := range ready {
		work.Go(func() error {
			for range b.execs {
				if ctx.Err() != nil {
					return nil
				}
				start := time.Now()
				r, err := box.Exec(ctx, b.command)
				if err == nil && r.ExitCode != 0 {
					err = status(1)
				}
				b.count(err, time.Since(start), &b.ran)
			}
			return nil
		})
	}
	_ = work.Wait() // errors are counted
	ended := time.Now()
	held := b.keep(ctx, ready, width)
	b.clean(ctx, width)
	stop()
	b.beating.Wait()
	r := benchResult{
		Image: b.spec.Image, Command: b.command.Shell, Concurrency: width, Sandboxes: n, Created: len(ready),
		Execs: n * b.execs, Succeeded: len(b.ran), Seconds: ended.Sub(began).Seconds(), ExecSeconds: ended.Sub(middle).Seconds(),
		Create: percentilesOf(b.created), Exec: percentilesOf(b.ran), Errors: b.errors, LeftBehind: b.left, Stopped: ctx.Err() != nil,
	}
	worked, asked := r.Created+r.Succeeded, r.Sandboxes+r.Execs
	if b.hold > 0 {
		r.HoldSeconds, r.Held = b.hold.Seconds(), held
		worked, asked = worked+held, asked+n
	}
	r.Success = float64(worked) / float64(asked)
	if r.ExecSeconds > 0 {
		r.PerSecond = float64(r.Succeeded) / r.ExecSeconds
	}
	return r
}

// create makes n sandboxes and returns those that are ready. They are kept alive as long as ctx is.
func (b *bench) create(ctx context.Context, sdk *client.Client, n, width int) (ready []*client.Sandbox) {
	var work errgroup.Group
	work.SetLimit(width)
	for range n {
		work.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			start := time.Now()
			box, info, err := sdk.Begin(ctx, b.spec)
			if err == nil {
				b.mu.Lock()
				b.boxes = append(b.boxes, box)
				b.mu.Unlock()
				if info.Status != client.Ready {
					_, err = box.Wait(ctx, b.spec.ReadyTimeout, nil)
				}
			}
			b.count(err, time.Since(start), &b.created)
			if err == nil {
				b.mu.Lock()
				ready = append(ready, box)
				b.mu.Unlock()
				if lease := b.spec.Lease; lease > 0 {
					// One that is lost is missed by what comes next.
					b.beating.Go(func() { _ = box.KeepAlive(ctx, lease) })
				}
			}
			return nil
		})
	}
	_ = work.Wait() // errors are counted
	return ready
}

// keep waits for the time of the hold and counts the sandboxes that are there after it.
func (b *bench) keep(ctx context.Context, ready []*client.Sandbox, width int) (held int) {
	if b.hold == 0 {
		return 0
	}
	b.program.say("%d sandboxes are kept for %v", len(ready), b.hold)
	select {
	case <-ctx.Done():
		return 0
	case <-time.After(b.hold):
	}
	var work errgroup.Group
	work.SetLimit(width)
	var times []time.Duration
	for _, box := range ready {
		work.Go(func() error {
			info, err := box.Info(ctx)
			if err == nil && info.Status != client.Ready {
				err = &client.Gone{Reason: info.Reason, Detail: info.Message}
			}
			b.count(err, 0, &times)
			return nil
		})
	}
	_ = work.Wait() // errors are counted
	return len(times)
}

// clean ends every sandbox, also when the bench was stopped.
func (b *bench) clean(ctx context.Context, width int) {
	patience := 2*time.Minute + time.Duration(len(b.boxes))*100*time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var work errgroup.Group
	work.SetLimit(width)
	for _, box := range b.boxes {
		work.Go(func() error {
			err := box.Delete(ctx)
			if err != nil && ctx.Err() == nil { // the service was busy with the others
				err = box.Delete(ctx)
			}
			if name, _ := kind(err); err != nil && name != "not_found" {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.errors["delete: "+name]++
				b.left = append(b.left, box.ID())
			}
			return nil
		})
	}
	_ = work.Wait() // who is left behind is told
}

func (r benchResult) describe(w io.Writer) {
	fmt.Fprintf(w, "%d sandboxes of %s, %d commands each, %d at a time\n", r.Sandboxes, r.Image, r.Execs/r.Sandboxes, r.Concurrency)
	fmt.Fprintf(w, "success   %.2f%% (%d sandboxes, %d commands)\n", 100*r.Success, r.Created, r.Succeeded)
	fmt.Fprintf(w, "commands  %.1f per second over %.2f s; %.2f s in all\n", r.PerSecond, r.ExecSeconds, r.Seconds)
	for _, t := range []struct {
		name string
		p    percentiles
	}{{"create", r.Create}, {"exec", r.Exec}} {
		fmt.Fprintf(w, "%-9s p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, longest %.1f ms\n", t.name, t.p.P50, t.p.P90, t.p.P99, t.p.Max)
	}
	if r.HoldSeconds > 0 {
		fmt.Fprintf(w, "held      %d for %.0f s\n", r.Held, r.HoldSeconds)
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(w, "errors    %v\n", r.Errors)
	}
	if len(r.LeftBehind) > 0 {
		fmt.Fprintf(w, "left behind: %v\n", r.LeftBehind)
	}
}
