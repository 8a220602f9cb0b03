package envctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// specFlags are the flags of a sandbox's spec, for every verb that makes one.
func specFlags() []cli.Flag {
	text := func(name, usage string) cli.Flag { return &cli.StringFlag{Name: name, Usage: usage} }
	list := func(name, usage string, short ...string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Aliases: short, Usage: usage}
	}
	span := func(name, usage string) cli.Flag { return &cli.DurationFlag{Name: name, Usage: usage} }
	return []cli.Flag{
		text("id", "its `ID`; default: the service chooses"),
		text("cpu", "limit, a `QUANTITY` such as 2 or 500m"), text("memory", "limit, a `QUANTITY` such as 2Gi"),
		text("cpu-request", "`QUANTITY` that a scheduler keeps free; default: the limit"),
		text("memory-request", "`QUANTITY` that a scheduler keeps free; default: the limit"),
		text("disk", "limit of what it writes, a `QUANTITY`"), &cli.IntFlag{Name: "gpu", Usage: "how many GPUs"},
		list("env", "`NAME=VALUE` for every command, or NAME alone for this machine's value; repeatable", "e"),
		text("workdir", "`FOLDER` of commands"),
		list("label", "`NAME=VALUE`; repeatable", "l"),
		&cli.BoolFlag{Name: "network", Usage: "open the network; default: none but loopback"},
		list("allow", "keep the network closed but for `RULE`, such as pypi.org or 203.0.113.0/24:443@10m; see net --help; repeatable"),
		span("lifetime", "end it after `TIME`, whatever happens"), span("lease", "end it without a heartbeat for `TIME`"),
		&cli.DurationFlag{Name: "ready-timeout", Usage: "give up when it is not ready after `TIME`", Value: time.Hour},
		list("node-selector", "`NAME=VALUE` of the machine; repeatable"),
		list("toleration", "`KEY[=VALUE][:EFFECT]` of a taint; repeatable"),
		text("runtime-class", "`NAME`, such as gvisor"), text("priority-class", "`NAME`"),
		list("pull-secret", "`NAME` of a Secret with a registry's password; repeatable"),
		&cli.BoolFlag{Name: "spot", Usage: "let it run on machines that are taken away at short notice"},
	}
}

// spec is what those flags say of a sandbox of image.
func spec(c *cli.Context, image string) (client.Spec, error) {
	s := client.Spec{
		ID: c.String("id"), Image: image, CPU: c.String("cpu"), Memory: c.String("memory"),
		CPURequest: c.String("cpu-request"), MemoryRequest: c.String("memory-request"), Disk: c.String("disk"), GPU: c.Int("gpu"),
		Workdir: c.String("workdir"), OpenNetwork: c.Bool("network"),
		Lifetime: c.Duration("lifetime"), Lease: c.Duration("lease"), ReadyTimeout: c.Duration("ready-timeout"),
		RuntimeClass: c.String("runtime-class"), PriorityClass: c.String("priority-class"), PullSecrets: c.StringSlice("pull-secret"), Spot: c.Bool("spot"),
	}
	var err error
	if s.Env, err = environ(c.StringSlice("env")); err != nil {
		return s, err
	}
	if s.Labels, err = pairs("--label", c.StringSlice("label")); err != nil {
		return s, err
	}
	if list := c.StringSlice("allow"); len(list) > 0 {
		if s.Egress, err = egressRules(list); err != nil {
			return s, err
		}
	}
	if s.NodeSelector, err = pairs("--node-selector", c.StringSlice("node-selector")); err != nil {
		return s, err
	}
	for _, text := range c.StringSlice("toleration") {
		t := client.Toleration{Operator: "Exists"}
		text, t.Effect, _ = strings.Cut(text, ":")
		var valued bool
		if t.Key, t.Value, valued = strings.Cut(text, "="); valued {
			t.Operator = "Equal"
		}
		s.Tolerations = append(s.Tolerations, t)
	}
	return s, nil
}

func pairs(flag string, list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, item := range list {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, exit.Configf("%s: %q is not NAME=VALUE", flag, item)
		}
		m[name] = value
	}
	return m, nil
}

// environ is NAME=VALUE, or NAME with this machine's value.
func environ(list []string) (map[string]string, error) {
	full := make([]string, len(list))
	for i, item := range list {
		if full[i] = item; !strings.Contains(item, "=") {
			value, ok := os.LookupEnv(item)
			if !ok {
				return nil, exit.Configf("--env: %q is not set here", item)
			}
			full[i] = item + "=" + value
		}
	}
	return pairs("--env", full)
}

func (p *Program) create() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "make a sandbox and print its id", ArgsUsage: "[IMAGE]",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "`IMAGE`: host, or an OCI image; the same as the argument"},
			&cli.BoolFlag{Name: "wait", Usage: "return when commands run in it", Value: true},
		}, specFlags()...),
		Action: func(c *cli.Context) error {
			if err := p.noLocal("create"); err != nil {
				return err
			}
			args, err := want(c, 0, 1)
			if err != nil {
				return err
			}
			image := c.String("image")
			if len(args) == 1 {
				image = args[0]
			}
			if image == "" || len(args) == 1 && c.IsSet("image") {
				return exit.Configf("usage: envctl create IMAGE")
			}
			s, err := spec(c, image)
			if err != nil {
				return err
			}
			return p.with(c.Context, func(sdk *client.Client) error {
				box, info, err := p.begin(c.Context, sdk, s, c.Bool("wait"))
				if err != nil {
					return err
				}
				if p.json() {
					if full, err := box.Info(c.Context); err == nil {
						info = full
					}
				}
				return p.print(info, func(w io.Writer) { fmt.Fprintln(w, box.ID()) })
			})
		},
	}
}

// begin makes a sandbox and, with wait, tells what it waits for until it is ready. One
// that does not become ready is removed.
func (p *Program) begin(ctx context.Context, sdk *client.Client, s client.Spec, wait bool) (*client.Sandbox, client.Info, error) {
	box, info, err := sdk.Begin(ctx, s)
	if err != nil || !wait || info.Status == client.Ready {
		return box, info, err
	}
	ready, err := p.watch(ctx, box, s.ReadyTimeout)
	if err != nil {
		p.remove(ctx, box)
		return nil, info, notStarted{err}
	}
	return box, ready, nil
}

// watch waits for a sandbox and says, as often as it changes, what it waits for.
func (p *Program) watch(ctx context.Context, box *client.Sandbox, limit time.Duration) (client.Info, error) {
	var mu sync.Mutex
	last := ""
	return box.Wait(ctx, limit, func(info client.Info) {
		mu.Lock()
		defer mu.Unlock()
		text := string(info.Status)
		if why := p.why(ctx, box, info); why != "" {
			text += ": " + why
		}
		if text != last {
			last = text
			p.say("%s %s", box.ID(), oneLine(text))
		}
	})
}

// why is what a sandbox waits for: its message, or else the last thing that happened.
func (p *Program) why(ctx context.Context, box *client.Sandbox, info client.Info) string {
	if info.Message != "" {
		return info.Message
	}
	events, err := box.Events(ctx)
	if err != nil || len(events) == 0 {
		return ""
	}
	last := events[len(events)-1]
	if last.Message == "" {
		return last.Type
	}
	return last.Type + ": " + last.Message
}

// remove ends a sandbox that this verb made, also when the verb was stopped.
func (p *Program) remove(ctx context.Context, box *client.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := box.Delete(ctx); err != nil {
		fmt.Fprintln(p.Err, "envctl: left behind:", err)
	}
}
